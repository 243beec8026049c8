#include "join_files.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/file_sets.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "weight_files.hpp"

namespace shardweld::formats::hf {

namespace {

using catalogue::Catalogue;
using Tensors = std::map<std::string, StoredTensor>;

// A key that is no text, in words: "(an integer)", or what its bytes say.
std::string key_text(const PickleValue& key) {
    return key.kind == PickleKind::bytes ? std::string(key.text()) : "(" + words_for(key) + ")";
}

Tensors torch_tensors(const TorchFile& file, Catalogue& out) {
    const PickleValue& root = file.root();
    if (!root.is_mapping()) {
        throw Error(ErrorCode::corrupt, "holds no dictionary of tensors");
    }
    Tensors tensors;
    IgnoredRows ignored;
    ModelValues values(file, ignored);
    for (std::size_t i = 0; i < root.pair_count(); ++i) {
        const PickleValue& key = root.key(i);
        const std::string name =
            key.kind == PickleKind::text ? std::string(key.text()) : key_text(key);
        try {
            if (auto tensor = file.tensor(root.value(i)); !tensor) {
                values.leave_aside(name, root.value(i));
            } else if (key.kind != PickleKind::text) {
                throw Error(ErrorCode::unsupported,
                            "its key is " + words_for(key) + ", where a name is expected",
                            "save the tensors under their names");
            } else {
                tensors.insert_or_assign(name, std::move(*tensor));
            }
        } catch (Error& error) {
            error.add_context("tensor " + printable(name));
            throw;
        }
    }
    out.ignored = ignored.take();
    return tensors;
}

void add_tensors(Tensors tensors, Catalogue& out) {
    out.tensors.reserve(tensors.size());
    while (!tensors.empty()) {  // either list holds as much as a large model's file tells
        auto taken = tensors.extract(tensors.begin());
        StoredTensor& stored = taken.mapped();
        catalogue::Tensor& tensor = out.tensors.emplace_back();
        tensor.name = std::move(taken.key());
        tensor.dtype = stored.dtype;
        if (stored.volume() != 0) {
            tensor.pieces.push_back(piece_of(stored));
        }
        tensor.shape = std::move(stored.shape);
    }
}

/// The file and its tensors, one piece each (none for an empty tensor). Errors name file and
/// tensor: Error(corrupt), Error(unsupported) as of the containers' readers.
Catalogue scan_weights(const Location& location, const std::string& file) {
    if (!file.ends_with(".safetensors")) {
        return scan_torch_file(location, file, [](const TorchFile& torch_file, Catalogue& out) {
            add_tensors(torch_tensors(torch_file, out), out);
        });
    }
    Catalogue out;
    try {
        const auto input = io::InputFile::open(location.directory / file);
        out.files.push_back({file, input.size()});
        add_tensors(read_safetensors_header(input), out);
    } catch (Error& error) {
        error.add_context("file " + printable(file));
        throw;
    }
    return out;
}

using catalogue::Tensor;

bool is_index(const std::string& file) {
    return file.ends_with(".json");
}

// Where several indices have a tensor, the first says where it is.
void add_index(IndexContent index, WeightMap& map) {
    const auto first = static_cast<Index>(map.files.size());
    std::move(index.files.begin(), index.files.end(), std::back_inserter(map.files));
    for (const auto& [name, file] : index.file_of) {
        map.file_of.emplace(name, first + file);
    }
}

/// All tensors of all files. A name in several files (a tied embedding of the first and the last
/// pipeline stage) is one tensor with replicas.
class WeightFileJoiner {
  public:
    WeightFileJoiner(Catalogue& out, std::size_t n_tensors, Strays strays)
        : out_(out), strays_(strays) {
        out_.tensors.reserve(n_tensors);
    }

    void add(Catalogue scan, const std::optional<WeightMap>& expected) {
        const std::uint32_t number = join_scan(scan, ignored_, out_);
        const std::string& file = out_.files[number].path;
        // Wherever it lies, its tensors have names; the index says which.
        out_.statements.push_back({file, "the names of its tensors", {{"file", file}}, {}, true});
        for (Tensor& tensor : scan.tensors) {
            if (expected && !is_expected(tensor, file, *expected)) {
                leave_aside(tensor);
                continue;
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
    [[nodiscard]] bool is_expected(const Tensor& tensor, const std::string& file,
                                   const WeightMap& expected) const {
        const auto at = expected.file_of.find(tensor.name);
        return at != expected.file_of.end() &&
               (strays_ == Strays::compared || expected.file(at->second) == file);
    }

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
    Strays strays_;
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

}  // namespace

ScanOf<IndexContent> scan_weights_or_index(const Location& location, const std::string& file) {
    if (!is_index(file)) {
        return {scan_weights(location, file)};
    }
    WeightMap map = read_weight_map(location.directory / file);
    return {{}, {std::move(map.files), std::move(map.file_of)}};
}

std::vector<std::string> WeightFilesFormat::scan_list(const Location& location) const {
    return location.shard_files;
}

ScanOf<IndexContent> WeightFilesFormat::scan_file(const Location& location,
                                                  const std::string& file) const {
    return scan_weights_or_index(location, file);
}

Catalogue WeightFilesFormat::join(const Location& location,
                                  std::vector<ScanOf<IndexContent>> scans) const {
    std::optional<WeightMap> expected;
    std::vector<Catalogue> weights;
    std::size_t n_tensors = 0;
    for (std::size_t i = 0; i < scans.size(); ++i) {
        if (is_index(location.shard_files[i])) {
            add_index(std::move(scans[i].own), expected ? *expected : expected.emplace());
        } else {
            n_tensors += scans[i].told.tensors.size();
            weights.push_back(std::move(scans[i].told));
        }
    }
    require_whole_sets(location.shard_files);
    Catalogue out;
    WeightFileJoiner joined(out, n_tensors, strays());
    for (Catalogue& scan : weights) {
        joined.add(std::move(scan), expected);
    }
    joined.finish();
    if (expected) {
        require_found(*expected, out.tensors);
    }
    if (out.tensors.empty()) {
        throw Error(ErrorCode::not_found, location.directory.string() + " holds no tensors");
    }
    out.facts = location.facts;
    out.notes = {std::string(noun()) + ", " + std::to_string(out.tensors.size()) + " tensors in " +
                 std::to_string(out.files.size()) + " files"};
    return out;
}

}  // namespace shardweld::formats::hf
