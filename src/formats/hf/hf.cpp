// HuggingFace model directories: which files are the model's weights, and what is in them. Sources:
// transformers 5.23 modeling_utils.py, colossalai 0.5.0 checkpoint_io. PEFT's directories of one
// adapter: peft 0.20 src/peft/peft_model.py (save_pretrained), utils/save_and_load.py.

#include "hf.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "core/in_context.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "consolidated.hpp"
#include "file_metadata.hpp"
#include "optimizer_files.hpp"

namespace shardweld::formats::hf {

namespace {

/// The files of the first row of this kind that any file fits: model*.safetensors, or else
/// everything of that kind that is no adapter and no shard of a distributed save.
std::vector<std::string> weights_of(const Listing& listing, std::string_view kind) {
    std::vector<std::string> files;
    for (const NameRule& rule : name_rules().shards) {
        if (files.empty() && rule.format == hf_format.name && rule.what == kind) {
            files = filter_list(listing.files, [&](const std::string& file) {
                return matches_any(rule.patterns, file) && !matches_any(rule.but, file);
            });
        }
    }
    return files;
}

[[noreturn]] void refuse_two(const fs::path& directory, const std::string& a,
                             const std::string& b) {
    throw Error(ErrorCode::mismatch,
                directory.string() + " holds two models, " + printable(a) + " and " + printable(b),
                "remove one: loaders differ in which they take");
}

/// `single`: what the kind's only file would be called.
std::vector<std::string> find_kind(const fs::path& directory, const Listing& listing,
                                   const std::string& single) {
    const std::string index = single + ".index.json";
    if (listing.has_file(index)) {
        std::vector<std::string> weights = read_weight_map(directory / index).files;
        std::ranges::sort(weights, natural_less);
        if (listing.has_file(single) && weights != std::vector{single}) {
            refuse_two(directory, single, index);
        }
        weights.push_back(index);
        return weights;
    }
    auto weights = weights_of(listing, single);
    auto* const other =
        find_where(weights, [&](const std::string& file) { return file != single; });
    if (listing.has_file(single) && other != nullptr) {
        refuse_two(directory, single, *other);
    }
    return weights;
}

}  // namespace

WeightMap read_weight_map(const fs::path& index) {
    return parse_weight_map(io::read_text(index, kLongestWeightMap), index.string());
}

std::vector<std::string> find_model_files(const fs::path& directory, const Listing& listing) {
    // In the order in which loaders try them.
    auto files = find_kind(directory, listing, "model.safetensors");
    return files.empty() ? find_kind(directory, listing, "pytorch_model.bin") : files;
}

namespace {

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
        in_context("tensor ", name, [&] {
            if (auto tensor = file.tensor(root.value(i)); !tensor) {
                values.leave_aside(name, root.value(i));
            } else if (key.kind != PickleKind::text) {
                throw Error(ErrorCode::unsupported,
                            "its key is " + words_for(key) + ", where a name is expected",
                            "save the tensors under their names");
            } else {
                tensors.insert_or_assign(name, std::move(*tensor));
            }
        });
    }
    out.ignored = ignored.rows();
    return tensors;
}

void add_tensors(Tensors tensors, Catalogue& out) {
    out.tensors.reserve(tensors.size());
    while (!tensors.empty()) {  // either list holds as much as a large model's file tells
        auto taken = tensors.extract(tensors.begin());
        StoredTensor& stored = taken.mapped();
        Tensor& tensor = out.tensors.emplace_back();
        tensor.name = std::move(taken.key());
        tensor.dtype = stored.dtype;
        if (stored.volume() != 0) {
            tensor.pieces.push_back(piece_of(stored));
        }
        tensor.shape = std::move(stored.shape);
    }
}

constexpr const char* kLost = "file_metadata";

/// The file and its tensors, one piece each (none for an empty tensor). Errors name file and
/// tensor: Error(corrupt), Error(unsupported) as of the containers' readers.
Catalogue scan_weights(const Location& location, const std::string& file) {
    if (!file.ends_with(".safetensors")) {
        return scan_torch_file(location, file, [](const TorchFile& torch_file, Catalogue& out) {
            add_tensors(torch_tensors(torch_file, out), out);
        });
    }
    return scan_input_file(location, file, [&](const io::InputFile& input, Catalogue& out) {
        SafetensorsHeader header = read_safetensors(input);
        if (const auto lost = lost_metadata(header); !lost.empty()) {
            out.warnings[kLost] = name_list(lost);
        }
        add_tensors(std::move(header.tensors), out);
        require_scalars_of_shards(location.directory, input, out.tensors);
    });
}

bool is_index(const std::string& file) {
    return file.ends_with(".json");
}

// Where several indices have a tensor, the first says where it is.
void add_index(WeightMap index, WeightMap& map) {
    const auto first = std::ssize(map.files);
    append_all(map.files, std::move(index.files));
    for (const auto& [name, file] : index.file_of) {
        map.file_of.emplace(name, first + file);
    }
}

constexpr const char* kOneModel = "keep the files of one model only";
/// Leaves aside what the index does not assign to the file, and returns its names.
std::vector<std::string> take_expected(Catalogue& scan, const std::string& file,
                                       const WeightMap& expected, UnindexedTensors strays,
                                       IgnoredRows& ignored) {
    std::vector<std::string> extras;
    std::erase_if(scan.tensors, [&](const Tensor& tensor) {
        auto* const at = find_value(expected.file_of, tensor.name);
        const bool is_expected =
            at != nullptr && (strays == UnindexedTensors::compared || expected.file(*at) == file);
        if (!is_expected) {
            extras.push_back(tensor.name);
            ignored.add(
                {pattern_of(printable(tensor.name)), "the index does not assign it to its file"}, 1,
                catalogue::stored_bytes(tensor));
        }
        return !is_expected;
    });
    return extras;
}

/// A name in several files (a tied embedding of the first and the last pipeline stage) becomes one
/// tensor with replicas. In place: a large model's tensors take as much memory as all else.
void join_replicas(const Assembler& all, std::vector<Tensor>& tensors) {
    std::ranges::sort(tensors, {}, [](const Tensor& tensor) {
        return std::pair<std::string_view, std::uint32_t>(
            tensor.name, tensor.pieces.empty() ? 0 : tensor.pieces.front().file);
    });
    std::size_t n_kept = 0;
    for (const std::size_t i : indices(tensors)) {
        if (n_kept > 0 && tensors[n_kept - 1].name == tensors[i].name) {
            Tensor& known = tensors[n_kept - 1];
            all.require_same(known, tensors[i]);
            for (Piece piece : tensors[i].pieces) {
                piece.replica = static_cast<std::uint32_t>(known.pieces.size());
                known.pieces.push_back(piece);
            }
            continue;
        }
        if (n_kept != i) {
            tensors[n_kept] = std::move(tensors[i]);
        }
        ++n_kept;
    }
    tensors.resize(n_kept);
}

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

ScanOf<WeightMap> scan_weights_or_index(const Location& location, const std::string& file) {
    if (!is_index(file)) {
        return {scan_weights(location, file)};
    }
    return {{}, read_weight_map(location.directory / file)};
}

Catalogue join_weights(const Location& location, std::vector<ScanOf<WeightMap>> scans,
                       UnindexedTensors strays) {
    std::optional<WeightMap> expected;
    std::size_t n_tensors = 0;
    for (const std::size_t i : indices(scans)) {
        n_tensors += scans[i].told.tensors.size();
        if (is_index(location.shard_files[i])) {
            add_index(std::move(scans[i].own), expected ? *expected : expected.emplace());
        }
    }
    require_whole_sets(location.shard_files);
    Catalogue out;
    out.tensors.reserve(n_tensors);
    Assembler all(out, {.hint = kOneModel});
    std::vector<std::string> extras;
    for (ScanOf<WeightMap>& one : scans) {
        Catalogue scan = std::exchange(one.told, {});
        if (scan.files.empty()) {
            continue;  // an index
        }
        const std::string file = scan.files.front().path;
        if (auto* const lost = find_value(scan.warnings, kLost)) {
            out.warnings.try_emplace(kLost, printable(file) +
                                                " says more than its tensors, which is not written "
                                                "(__metadata__): " +
                                                *lost);
        }
        all.add_scan(scan);
        // Wherever it lies, its tensors have names; the index says which.
        out.statements.push_back({file, "the names of its tensors", {{"file", file}}, {}, true});
        if (expected) {
            append_all(extras, take_expected(scan, file, *expected, strays, all.ignored()));
        }
        append_all(out.tensors, std::move(scan.tensors));
    }
    join_replicas(all, out.tensors);
    all.finish();
    if (!extras.empty()) {
        out.warnings["unassigned_tensors"] =
            counted(extras.size(), "tensor") + " " +
            verb_of(extras.size(), "is in a file to which the index does not assign it, and is",
                    "are in files to which the index does not assign them, and are") +
            " left aside: " + name_list(extras);
    }
    if (expected) {
        require_found(*expected, out.tensors);
    }
    if (out.tensors.empty()) {
        throw Error(ErrorCode::not_found, location.directory.string() + " holds no tensors");
    }
    out.facts = location.facts;
    out.notes = {std::string(format_of(location).noun) + ", " +
                 counted(out.tensors.size(), "tensor") + " in " +
                 counted(out.files.size(), "file")};
    return out;
}

namespace {

bool is_of_peft(std::string_view name) {
    return has_part(name, kOfPeft) || has_part(name, ".lora_A.") || has_part(name, ".base_layer.");
}

/// The names that an index or a file of weights has; none where it cannot be read.
std::vector<std::string> names_in(const Location& location, const std::string& file) {
    std::vector<std::string> names;
    try {
        const auto [weights, index] = scan_weights_or_index(location, file);
        names = collect_list(weights.tensors, &Tensor::name);
        for (const auto& [name, weights_file] : index.file_of) {
            names.push_back(name);
        }
    } catch (const Error&) {
        // Whoever reads the model says what is wrong with it.
    }
    return names;
}

}  // namespace

void refuse_wrapped(const fs::path& directory) {
    const auto location = hf_format.probe(directory, try_list_directory(directory));
    const auto names =
        location ? names_in(*location, location->shard_files.back()) : std::vector<std::string>{};
    const std::string what = directory.string() + " holds a HuggingFace model's files, but ";
    if (auto* const at = find_where(names, is_of_peft)) {
        throw Error(ErrorCode::usage,
                    what + "a LoRA adapter is in them: " + printable(*at) + " is a name of PEFT's",
                    "--backend hf --lora fold adds it to the weights, --backend hf alone writes it "
                    "beside the base");
    }
    const auto is_wrapped = [](const std::string& name) { return without_wrappers(name) != name; };
    if (auto* const at = find_where(names, is_wrapped)) {
        throw Error(ErrorCode::usage,
                    what + "under names of a training wrapper: " + printable(*at) + " instead of " +
                        printable(without_wrappers(*at)),
                    "--backend hf writes them under the model's names");
    }
}

namespace {

std::optional<Location> probe_model(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(hf_format, directory, &listing);
    location.shard_files = find_model_files(directory, listing);
    return location.shard_files.empty() ? std::nullopt : std::optional(std::move(location));
}

std::vector<std::string> files_to_scan(const Location& location) {
    std::vector<std::string> files = location.shard_files;
    append_all(files, optimizer_files(location));
    return files;
}

ScanOf<WeightMap> scan_model(const Location& location, const std::string& file) {
    ScanOf<WeightMap> scan = scan_weights_or_index(location, file);
    if (!state_in(file).empty()) {
        take_as_state(location, file, scan.told);
    }
    return scan;
}

Catalogue join_model(const Location& location, std::vector<ScanOf<WeightMap>> scans) {
    std::vector<Catalogue> states;
    for (std::size_t i = location.shard_files.size(); i < scans.size(); ++i) {
        states.push_back(std::move(scans[i].told));
    }
    scans.resize(location.shard_files.size());
    Catalogue out = join_weights(location, std::move(scans), UnindexedTensors::left_aside);
    if (!states.empty()) {
        add_states(std::move(states), out);
    }
    return out;
}

// In the order in which PEFT looks for them.
constexpr std::array<const char*, 2> kAdapterWeights = {"adapter_model.safetensors",
                                                        "adapter_model.bin"};

std::optional<Location> probe_adapter(const fs::path& directory, const Listing& listing) {
    const auto* const weights =
        find_where(kAdapterWeights, [&](const char* name) { return listing.has_file(name); });
    if (weights == nullptr) {
        return std::nullopt;
    }
    Location location = begun_at(adapter_format, directory, &listing);
    location.shard_files = {*weights};
    location.adapter_directory = directory;
    if (weights == kAdapterWeights.begin() && listing.has_file(kAdapterWeights[1])) {
        location.warnings["second_adapter"] =
            std::string(kAdapterWeights[1]) + " lies beside " + kAdapterWeights[0] +
            " and may be another step's: it is not read, as PEFT does not read it";
    }
    return location;
}

}  // namespace

/// config.json with safetensors or torch files, with or without an index.
const Format hf_format = {
    .name = "huggingface",
    .backend = "hf",
    .noun = "HuggingFace model",
    .explicit_only = true,
    .holds_weights_only = true,
    .refuse_unasked =
        [](const fs::path& directory) {
            refuse_wrapped(directory);
            throw Error(ErrorCode::not_found,
                        directory.string() + " is a HuggingFace model already",
                        "add --quantize, --dtype or --max_shard_size to convert it");
        },
    .probe = probe_model,
    .scan_list = files_to_scan,
    .scan = scan_typed<WeightMap, scan_model>,
    .combine = combine_typed<WeightMap, join_model>,
};

/// Read where a directory holds nothing that is merged otherwise.
const Format adapter_format = {
    .name = "peft",
    .backend = "peft",
    .noun = "PEFT adapter",
    .explicit_only = true,
    .holds_weights_only = true,
    .probe = probe_adapter,
    .scan = scan_typed<WeightMap, scan_weights_or_index>,
    .combine = combine_typed<WeightMap, join_model>,
};

}  // namespace shardweld::formats::hf
