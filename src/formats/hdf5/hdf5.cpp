// HDF5 files: whole models as this program writes them, and the files of ranks that hold pieces.
// Convention: docs/formats/hdf5.md.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/shared_object.hpp"
#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/file_sets.hpp"
#include "formats/shared/hints.hpp"
#include "formats/typed_scan.hpp"
#include "hdf5/parts.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "dataset.hpp"
#include "lister.hpp"

namespace shardweld::formats::hdf5 {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

constexpr const char* kConfigDataset = "__config__";

bool is_hdf5_name(const std::string& name) {
    return name.ends_with(".h5") || name.ends_with(".hdf5");
}

/// What only the joining of files makes use of.
struct FileContent {
    std::vector<std::string> untyped;  ///< tensors without a stated type

    static constexpr auto fields = [](auto& self) { return std::tie(self.untyped); };
};
using FileScan = ScanOf<FileContent>;

void add_dataset(const Dataset& dataset, Bytes file_size, FileScan& scan) {
    Catalogue& out = scan.told;
    try {
        if (dataset.name == kConfigDataset) {
            out.ignored.push_back({kConfigDataset, "config.json beside the files is used instead",
                                   1,
                                   static_cast<Bytes>(volume_of(dataset.shape, kConfigDataset))});
            return;
        }
        Tensor tensor = tensor_of(dataset, file_size);
        if (volume_of(tensor.shape, "its shape") == 0) {
            out.ignored.push_back({printable(tensor.name), "empty tensor", 1, 0});
            return;
        }
        if (may_be_disguised(dataset)) {
            scan.own.untyped.push_back(tensor.name);
        }
        out.tensors.push_back(std::move(tensor));
    } catch (Error& error) {
        error.add_context("dataset " + printable(dataset.name));
        throw;
    }
}

/// One tensor's pieces in all files.
void add_pieces(Tensor piece, const std::vector<catalogue::File>& files,
                std::map<std::string, Tensor>& tensors) {
    const auto [at, is_new] = tensors.try_emplace(piece.name);
    Tensor& tensor = at->second;
    if (is_new) {
        tensor = std::move(piece);
        return;
    }
    if (tensor.dtype != piece.dtype || tensor.shape != piece.shape) {
        const auto text = [](const Tensor& one) {
            return std::string(safetensors_name(one.dtype)) + " " + shape_text(one.shape);
        };
        const std::uint32_t file = piece.pieces.empty() ? 0 : piece.pieces.front().file;
        throw Error(ErrorCode::mismatch,
                    printable(piece.name) + " is " + text(tensor) + " in one file but " +
                        text(piece) + " in " + printable(files[file].path),
                    kOneSave);
    }
    tensor.pieces.insert(tensor.pieces.end(), piece.pieces.begin(), piece.pieces.end());
}

/// Copies numbered, every element there once.
void settle(Tensor& tensor, const std::vector<catalogue::File>& files) {
    number_replicas(tensor.pieces);
    const CoverFault fault = find_cover_fault(tensor);
    const std::string what = printable(tensor.name) + " of shape " + shape_text(tensor.shape);
    switch (fault.kind) {
        case Cover::Kind::exact:
            return;
        case Cover::Kind::gap:
            throw Error(ErrorCode::not_found, what + ": no file holds the elements " + fault.text,
                        kCopyAll);
        case Cover::Kind::overlap:
            throw Error(ErrorCode::mismatch,
                        what + ": " + printable(files[fault.first_file].path) + " and " +
                            printable(files[fault.second_file].path) +
                            " hold pieces that overlap: " + fault.text,
                        kOneSave);
        case Cover::Kind::irregular:
            throw Error(ErrorCode::unsupported, what + ": too many pieces that form no grid");
    }
}

void warn_of_untyped(std::set<std::string> names, Catalogue& out) {
    if (!names.empty()) {
        out.warnings["type_unstated"] =
            std::to_string(names.size()) +
            " tensor(s) are stored as unsigned integers without the attribute shardweld_dtype, and "
            "are read as integers: " +
            listed({names.begin(), names.end()}) +
            "; if they are BF16 or an 8-bit float, give the datasets the attribute";
    }
}

class Hdf5Input final : public FormatOf<FileContent> {
  public:
    [[nodiscard]] std::string_view name() const override { return "hdf5"; }
    [[nodiscard]] std::string_view backend() const override { return "hdf5"; }
    [[nodiscard]] std::string_view noun() const override { return "set of HDF5 files"; }
    /// Its library has a history of faults with made-up files.
    [[nodiscard]] bool explicit_only() const override { return true; }
    [[nodiscard]] std::string_view looks_for() const override { return "*.h5, *.hdf5"; }
    [[nodiscard]] bool recognises(const Listing& listing) const override {
        return std::any_of(listing.files.begin(), listing.files.end(), is_hdf5_name);
    }
    void refuse_unasked(const fs::path& directory) const override {
        throw Error(
            ErrorCode::unsupported,
            directory.string() + " looks like HDF5 files, which are read only when asked for",
            "give --backend hdf5; this build reads: " + name_list(backends()));
    }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        Location location = begun_at(directory, &listing);
        std::copy_if(listing.files.begin(), listing.files.end(),
                     std::back_inserter(location.shard_files), is_hdf5_name);
        if (location.shard_files.empty()) {
            return std::nullopt;
        }
        return location;
    }

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        return location.shard_files;
    }

  private:
    [[nodiscard]] FileScan scan_file(const Location& location,
                                     const std::string& file) const override {
        const auto lister = find_installed(shardweld::hdf5::kListerFile);
        if (!lister) {
            throw Error(ErrorCode::unsupported, "this build reads no HDF5",
                        shardweld::hdf5::kRemedy);
        }
        const fs::path path = location.directory / file;
        FileScan scan;
        try {
            const Bytes size = io::InputFile::open(path).size();
            scan.told.files.push_back({file, size});
            for (const Dataset& dataset : parse_listing(run_lister(*lister, path))) {
                add_dataset(dataset, size, scan);
            }
        } catch (Error& error) {
            error.add_context("file " + printable(file));
            throw;
        }
        return scan;
    }

    [[nodiscard]] Catalogue join(const Location& location,
                                 std::vector<FileScan> scans) const override {
        Catalogue out;
        out.facts = location.facts;
        require_whole_sets(location.shard_files);
        std::map<std::string, Tensor> tensors;
        IgnoredRows ignored;
        std::set<std::string> untyped;
        for (auto& [scan, own] : scans) {
            untyped.insert(own.untyped.begin(), own.untyped.end());
            join_scan(scan, ignored, out);
            const std::string& path = out.files.back().path;
            out.statements.push_back(
                {path, "names and offsets of its datasets", {{"file", path}}, {}, true});
            for (Tensor& tensor : scan.tensors) {
                add_pieces(std::move(tensor), out.files, tensors);
            }
        }
        for (auto& [name, tensor] : tensors) {
            settle(tensor, out.files);
            out.tensors.push_back(std::move(tensor));
        }
        out.ignored = ignored.take();
        warn_of_untyped(std::move(untyped), out);
        const std::size_t n_files = out.files.size();
        out.notes = {"HDF5, " + std::to_string(out.tensors.size()) + " tensors in " +
                     std::to_string(n_files) + (n_files == 1 ? " file" : " files")};
        return out;
    }
};

}  // namespace

const Format& hdf5_format() {
    static const Hdf5Input format;
    return format;
}

}  // namespace shardweld::formats::hdf5
