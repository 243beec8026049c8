// HuggingFace model directories: weight files put together and held against their index.
// Knows the directory's layout; files are weight_file's, names and the index are model_files'.

#include "hf.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "../directory_listing.hpp"
#include "../shared/file_scan.hpp"
#include "../shared/ignored_rows.hpp"
#include "../shared/module_names.hpp"
#include "../shared/numbered_files.hpp"
#include "../signs.hpp"
#include "model_files.hpp"
#include "weight_file.hpp"

namespace shardweld::formats::hf {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::array<KnownName, 1> kNames = {{
    {"sharded/*", "the shards from which torch's HuggingFace storage writer made the model"},
}};

// The index as a catalogue: of each tensor the number of its file.
Catalogue scan_index(const fs::path& path) {
    Catalogue out;
    WeightMap map = read_weight_map(path);
    for (const std::string& file : map.files) {
        out.files.push_back({file, 0});
    }
    out.facts = std::move(map.file_of);
    return out;
}

WeightMap weight_map_of(Catalogue index) {
    WeightMap map;
    for (const catalogue::File& file : index.files) {
        map.files.push_back(file.path);
    }
    map.file_of = std::move(index.facts);
    return map;
}

bool is_in(const Tensor& tensor, const std::string& file, const WeightMap& expected) {
    const auto at = expected.file_of.find(tensor.name);
    return at != expected.file_of.end() && expected.file(at->second) == file;
}

/// All tensors of all files. A name in several files (a tied embedding of the first and the last
/// pipeline stage) is one tensor with replicas.
class WeightFileJoiner {
  public:
    WeightFileJoiner(Catalogue& out, std::size_t n_tensors) : out_(out) {
        out_.tensors.reserve(n_tensors);
    }

    /// Names that the index gives to another file are left aside.
    void add(Catalogue scan, const std::optional<WeightMap>& expected) {
        const std::uint32_t number = join_scan(scan, ignored_, out_);
        const std::string& file = out_.files[number].path;
        // Wherever it lies, its tensors have names; the index says which.
        out_.statements.push_back({file, "the names of its tensors", {{"file", file}}, {}, true});
        for (Tensor& tensor : scan.tensors) {
            if (expected && !is_in(tensor, file, *expected)) {
                leave_aside(tensor);
                continue;
            }
            for (auto& piece : tensor.pieces) {
                piece.file = number;
            }
            out_.tensors.push_back(std::move(tensor));
        }
    }

    void finish() {
        join_replicas();
        out_.ignored = ignored_.take();
        if (!extras_.empty()) {
            out_.warnings["unassigned_tensors"] = std::to_string(extras_.size()) +
                                                  " tensor(s) are in files to which the index does "
                                                  "not assign them, and are left aside: " +
                                                  name_list(extras_);
        }
    }

  private:
    void leave_aside(const Tensor& tensor) {
        extras_.push_back(tensor.name);
        ignored_.add(
            {pattern_of(printable(tensor.name)), "the index does not assign it to its file"}, 1,
            catalogue::stored_bytes(tensor));
    }

    void join_replicas() {
        auto& tensors = out_.tensors;
        std::ranges::sort(tensors, {}, [](const Tensor& tensor) {
            return std::pair<std::string_view, std::uint32_t>(
                tensor.name, tensor.pieces.empty() ? 0 : tensor.pieces.front().file);
        });
        std::size_t n_kept = 0;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (n_kept > 0 && tensors[n_kept - 1].name == tensors[i].name) {
                join(tensors[n_kept - 1], tensors[i]);
                continue;
            }
            if (n_kept != i) {
                tensors[n_kept] = std::move(tensors[i]);
            }
            ++n_kept;
        }
        tensors.resize(n_kept);
    }

    static void join(Tensor& known, const Tensor& more) {
        if (known.dtype != more.dtype || known.shape != more.shape) {
            throw Error(ErrorCode::mismatch,
                        "tensor " + printable(known.name) + " is in two files with different " +
                            (known.dtype != more.dtype ? "dtypes" : "shapes"),
                        "keep the files of one model only");
        }
        for (catalogue::Piece piece : more.pieces) {
            piece.replica = static_cast<std::uint32_t>(known.pieces.size());
            known.pieces.push_back(piece);
        }
    }

    Catalogue& out_;
    IgnoredRows ignored_;
    std::vector<std::string> extras_;
};

void require_found(const WeightMap& expected, const std::vector<Tensor>& tensors) {
    for (const auto& [name, file] : expected.file_of) {
        if (!std::ranges::binary_search(tensors, name, {}, &Tensor::name)) {
            throw Error(ErrorCode::not_found,
                        "the index says that tensor " + printable(name) + " is in " +
                            printable(expected.file(file)) + ", which does not hold it",
                        "copy index and files of one model");
        }
    }
}

class HuggingFace final : public Format {
  public:
    [[nodiscard]] std::string_view name() const override { return "huggingface"; }
    [[nodiscard]] std::string_view backend() const override { return "hf"; }
    [[nodiscard]] bool only_by_name() const override { return true; }
    [[nodiscard]] std::string_view noun() const override { return "HuggingFace model"; }
    [[nodiscard]] std::string_view looks_for() const override {
        return "model.safetensors, *.safetensors, pytorch_model*.bin, their index";
    }
    [[nodiscard]] bool is_told_by(const Listing& listing) const override {
        return is_hf_model(listing);
    }
    void refuse_unasked(const fs::path& directory) const override {
        throw Error(ErrorCode::not_found, directory.string() + " is a HuggingFace model already",
                    "there is nothing to merge; --backend hf re-shards or casts it");
    }

    [[nodiscard]] std::span<const KnownName> known_names() const override { return kNames; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        auto model = find_model_files(directory, listing);
        if (!model) {
            return std::nullopt;
        }
        Location location;
        location.format = name();
        location.directory = directory;
        location.shard_files = std::move(model->weights);
        if (!model->index.empty()) {
            location.shard_files.push_back(model->index);
        }
        if (listing.has_file("config.json")) {
            location.hf_directory = directory;
        }
        if (listing.has_directory("tmp_index_files")) {
            location.notes.emplace_back(
                "tmp_index_files is still there: the save of this model may be incomplete");
        }
        return location;
    }

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        return location.shard_files;
    }

    [[nodiscard]] Catalogue scan(const Location& location, const std::string& file) const override {
        return file.ends_with(kIndexSuffix) ? scan_index(location.directory / file)
                                            : scan_weights(location, file);
    }

    [[nodiscard]] Catalogue combine(const Location& location,
                                    std::vector<Catalogue> scans) const override {
        Catalogue out;
        std::optional<WeightMap> expected;
        for (std::size_t i = 0; i < scans.size(); ++i) {
            if (location.shard_files[i].ends_with(kIndexSuffix)) {
                expected = weight_map_of(std::move(scans[i]));
                scans.erase(scans.begin() + static_cast<std::ptrdiff_t>(i));
                break;
            }
        }
        require_whole_sets(location.shard_files);
        std::size_t n_tensors = 0;
        for (const Catalogue& scan : scans) {
            n_tensors += scan.tensors.size();
        }
        WeightFileJoiner joined(out, n_tensors);
        for (Catalogue& scan : scans) {
            joined.add(std::move(scan), expected);
        }
        joined.finish();
        if (expected) {
            require_found(*expected, out.tensors);
        }
        if (out.tensors.empty()) {
            throw Error(ErrorCode::not_found, location.directory.string() + " holds no tensors");
        }
        out.format = name();
        out.dialect = "hf_module";
        out.facts = location.facts;
        out.notes.insert(out.notes.begin(),
                         "HuggingFace model, " + std::to_string(out.tensors.size()) +
                             " tensors in " + std::to_string(out.files.size()) + " files");
        out.notes.insert(out.notes.end(), location.notes.begin(), location.notes.end());
        return out;
    }
};

}  // namespace

const Format& hf_format() {
    static const HuggingFace format;
    return format;
}

}  // namespace shardweld::formats::hf
