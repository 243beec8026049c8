// HDF5 files: whole models as this program writes them, and the files of ranks that hold pieces.
// Convention: docs/formats/hdf5.md.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/in_context.hpp"
#include "core/names/name_rules.hpp"
#include "core/process/shared_object.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/typed_scan.hpp"
#include "hdf5/parts.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "dataset.hpp"
#include "lister.hpp"

namespace shardweld::formats::hdf5 {

namespace {

constexpr const char* kConfigDataset = "__config__";

/// Names of tensors without a stated type.
using UntypedTensors = std::vector<std::string>;
using FileScan = ScanOf<UntypedTensors>;

void add_dataset(const Dataset& dataset, Bytes file_size, FileScan& scan) {
    Catalogue& out = scan.told;
    if (dataset.name == kConfigDataset) {
        out.ignored.push_back({kConfigDataset, "config.json beside the files is used instead", 1,
                               static_cast<Bytes>(volume_of(dataset.shape, kConfigDataset))});
        return;
    }
    Tensor tensor = tensor_of(dataset, file_size);
    if (volume_of(tensor.shape, "its shape") == 0) {
        out.ignored.push_back({printable(tensor.name), "empty tensor", 1, 0});
        return;
    }
    if (may_be_disguised(dataset)) {
        scan.own.push_back(tensor.name);
    }
    out.tensors.push_back(std::move(tensor));
}

constexpr AssemblyErrors kHdf5Errors = {.gap = ErrorCode::not_found, .cover_hint = kCopyAll};

void warn_of_untyped(const std::set<std::string>& names, Catalogue& out) {
    if (!names.empty()) {
        out.warnings["type_unstated"] =
            counted(names.size(), "tensor") + " " + verb_of(names.size(), "is", "are") +
            " stored as unsigned integers without the attribute shardweld_dtype and read as "
            "integers: " +
            listed({names.begin(), names.end()}) +
            "; if they are BF16 or an 8-bit float, give the datasets the attribute";
    }
}

std::optional<Location> probe_files(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(hdf5_format, directory, &listing);
    location.shard_files = filter_list(listing.files, [](const std::string& file) {
        return match_rule(name_rules().seen, file, hdf5_format.name).has_value();
    });
    return location.shard_files.empty() ? std::nullopt : std::optional(std::move(location));
}

FileScan list_file(const Location& location, const std::string& file) {
    const auto lister = find_installed(shardweld::hdf5::kListerFile);
    if (!lister) {
        throw Error(ErrorCode::unsupported, "this build reads no HDF5", shardweld::hdf5::kRemedy);
    }
    const fs::path path = location.directory / file;
    FileScan scan;
    in_context("file ", file, [&] {
        const Bytes size = io::InputFile::open(path).size();
        scan.told.files.push_back({file, size});
        for (const Dataset& dataset : parse_listing(run_lister(*lister, path))) {
            in_context("dataset ", dataset.name, [&] { add_dataset(dataset, size, scan); });
        }
    });
    return scan;
}

Catalogue join_files(const Location& location, std::vector<FileScan> scans) {
    Catalogue out;
    out.facts = location.facts;
    require_whole_sets(location.shard_files);
    Assembler all(out, kHdf5Errors);
    std::set<std::string> untyped;
    for (FileScan& scan : scans) {
        untyped.insert(scan.own.begin(), scan.own.end());
        const std::uint32_t file = all.add_scan(scan.told);
        const std::string& path = out.files[file].path;
        out.statements.push_back(
            {path, "names and offsets of its datasets", {{"file", path}}, {}, true});
        for (Tensor& tensor : scan.told.tensors) {
            all.add(std::move(tensor), file);
        }
    }
    for (auto& [name, known] : all.tensors) {
        number_replicas(known.tensor.pieces);
        all.require_cover(known.tensor, find_cover_fault(known.tensor));
    }
    all.finish();
    warn_of_untyped(untyped, out);
    const std::size_t n_files = out.files.size();
    out.notes = {"HDF5, " + counted(out.tensors.size(), "tensor") + " in " +
                 counted(n_files, "file")};
    return out;
}

}  // namespace

const Format hdf5_format = {
    .name = "hdf5",
    .backend = "hdf5",
    .noun = "set of HDF5 files",
    .explicit_only = true,  // its library has a history of faults with made-up files
    .refuse_unasked =
        [](const fs::path& directory) {
            throw Error(
                ErrorCode::unsupported,
                directory.string() + " looks like HDF5 files, which are read only when asked for",
                "give --backend hdf5; this build reads: " + name_list(backends()));
        },
    .probe = probe_files,
    .scan = scan_typed<UntypedTensors, list_file>,
    .combine = combine_typed<UntypedTensors, join_files>,
};

}  // namespace shardweld::formats::hdf5
