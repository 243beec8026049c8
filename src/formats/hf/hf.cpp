// HuggingFace model directories: weight files put together and held against their index.
// Knows the directory's layout; files are weight_file's, names and the index are model_files'.

#include "hf.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "../directory.hpp"
#include "../shared/file_scan.hpp"
#include "../shared/ignored_rows.hpp"
#include "../shared/module_names.hpp"
#include "../shared/numbered_files.hpp"
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

// The index as a catalogue: each tensor with the one file it is in, and no place in it.
Catalogue scan_index(const fs::path& path) {
    Catalogue out;
    std::map<std::string, std::uint32_t> numbers;
    for (const auto& [name, file] : read_weight_map(path)) {
        const auto [at, is_new] =
            numbers.try_emplace(file, static_cast<std::uint32_t>(out.files.size()));
        if (is_new) {
            out.files.push_back({file, 0});
        }
        Tensor& tensor = out.tensors.emplace_back();
        tensor.name = name;
        tensor.pieces.emplace_back().file = at->second;
        tensor.pieces.back().located = false;
    }
    return out;
}

/// All tensors of all files. A name in several files (a tied embedding of the first and the last
/// pipeline stage) is one tensor with replicas.
class Joined {
  public:
    explicit Joined(Catalogue& out) : out_(out) {}

    /// `expected`: name -> file by the index; names it gives to another file are left aside.
    void add(Catalogue scan, const WeightMap* expected) {
        const std::uint32_t number = join_scan(scan, ignored_, out_);
        const std::string& file = out_.files[number].path;
        // Wherever it lies, its tensors have names; the index says which.
        out_.statements.push_back({file, "the names of its tensors", {{"file", file}}, {}, true});
        for (Tensor& tensor : scan.tensors) {
            if (expected != nullptr) {
                const auto at = expected->find(tensor.name);
                if (at == expected->end() || at->second != file) {
                    leave_aside(tensor);
                    continue;
                }
            }
            for (auto& piece : tensor.pieces) {
                piece.file = number;
            }
            insert(std::move(tensor));
        }
    }

    void finish() {
        for (auto& [name, tensor] : tensors_) {
            out_.tensors.push_back(std::move(tensor));
        }
        out_.ignored = ignored_.take();
        if (!extras_.empty()) {
            out_.warnings["unassigned_tensors"] =
                std::to_string(extras_.size()) +
                " tensor(s) are in files to which the index does not give them and are left "
                "aside: " +
                name_list(extras_);
        }
    }

    [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }

  private:
    void leave_aside(const Tensor& tensor) {
        extras_.push_back(tensor.name);
        ignored_.add({pattern_of(printable(tensor.name)), "the index does not give it to its file"},
                     1, catalogue::stored_bytes(tensor));
    }

    void insert(Tensor tensor) {
        const auto at = tensors_.find(tensor.name);
        if (at == tensors_.end()) {
            auto name = tensor.name;
            tensors_.emplace(std::move(name), std::move(tensor));
            return;
        }
        Tensor& known = at->second;
        if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
            throw Error(ErrorCode::mismatch,
                        "tensor " + printable(known.name) + " is in two files with different " +
                            (known.dtype != tensor.dtype ? "dtypes" : "shapes"));
        }
        for (auto& piece : tensor.pieces) {
            piece.replica = static_cast<std::uint32_t>(known.pieces.size());
            known.pieces.push_back(piece);
        }
    }

    Catalogue& out_;
    std::map<std::string, Tensor> tensors_;
    IgnoredRows ignored_;
    std::vector<std::string> extras_;
};

WeightMap weight_map_of(const Catalogue& index) {
    WeightMap map;
    for (const Tensor& tensor : index.tensors) {
        map.emplace(tensor.name, index.files.at(tensor.pieces.front().file).path);
    }
    return map;
}

void require_found(const WeightMap& expected, const Joined& joined) {
    for (const auto& [name, file] : expected) {
        if (!joined.has(name)) {
            throw Error(ErrorCode::not_found, "the index says that tensor " + printable(name) +
                                                  " is in " + printable(file) +
                                                  ", which does not hold it");
        }
    }
}

class HuggingFace final : public Format {
  public:
    [[nodiscard]] std::string_view name() const override { return "huggingface"; }
    [[nodiscard]] std::string_view backend() const override { return "hf"; }
    [[nodiscard]] bool only_by_name() const override { return true; }

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
                expected = weight_map_of(scans[i]);
                scans.erase(scans.begin() + static_cast<std::ptrdiff_t>(i));
                break;
            }
        }
        require_whole_sets(location.shard_files);
        Joined joined(out);
        for (Catalogue& scan : scans) {
            joined.add(std::move(scan), expected ? &*expected : nullptr);
        }
        if (expected) {
            require_found(*expected, joined);
        }
        joined.finish();
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
