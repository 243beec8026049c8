#include "stage_content.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "numbering.hpp"

namespace shardweld::formats::megatron {

namespace {

/// Sizes and CRC-32s.
using SizesAndSums = std::vector<std::pair<Bytes, std::uint64_t>>;

/// What one file holds: its records' CRC-32s in their order, and whether experts are among them.
struct Content {
    SizesAndSums records;
    std::size_t n_tensors = 0;
    bool has_experts = false;
    bool is_known = true;  ///< every record has a CRC-32
};

std::vector<Content> contents_of(const std::vector<Shard>& shards, std::size_t n_files) {
    std::vector<Content> contents(n_files);
    for (const Shard& shard : shards) {
        Content& content = contents[shard.piece.file];
        content.is_known = content.is_known && shard.piece.crc32 != 0;
        content.has_experts = content.has_experts || has_part(shard.name.text(), "experts.");
        content.records.emplace_back(shard.piece.storage_bytes, shard.piece.crc32);
        ++content.n_tensors;
    }
    return contents;
}

/// Ranks of one expert group repeat what is no expert.
bool are_other_parts(const Coordinates& a, const Coordinates& b, const Content& content) {
    return a.tp != b.tp || a.pp != b.pp || (a.ep != b.ep && content.has_experts);
}

/// The first and last places of one thing in the order of layers.
struct LayerSpan {
    using Stage = std::pair<int, int>;  ///< vpp, pp
    Stage first;
    Stage last;
    std::uint32_t first_file = 0;
    std::uint32_t last_file = 0;

    void add(const LayerSpan& other) {
        if (other.first < first) {
            first = other.first;
            first_file = other.first_file;
        }
        if (other.last > last) {
            last = other.last;
            last_file = other.last_file;
        }
    }
};
using Spans = std::map<std::string, LayerSpan, std::less<>>;

void add(Spans& spans, std::string_view key, const LayerSpan& span) {
    auto* const at = find_value(spans, key);
    if (at == nullptr) {
        spans.emplace(key, span);
    } else {
        at->add(span);
    }
}

/// By name, each once: thousands of files repeat the same ones.
std::unordered_map<SharedText, LayerSpan> spans_of(const std::vector<Shard>& shards) {
    std::unordered_map<SharedText, LayerSpan> spans;
    for (const Shard& shard : shards) {
        const LayerSpan::Stage stage(shard.at.vpp, shard.at.pp);
        const LayerSpan own{stage, stage, shard.piece.file, shard.piece.file};
        const auto [at, is_new] = spans.try_emplace(shard.name, own);
        if (!is_new) {
            at->second.add(own);
        }
    }
    return spans;
}

bool is_last_component(std::string_view name, std::string_view end) {
    return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
}

/// "decoder." of "decoder.final_layernorm.weight"; "" for other names.
std::string_view stack_of_norm(std::string_view name) {
    for (const std::string_view norm : {"final_layernorm.weight", "final_norm.weight"}) {
        if (is_last_component(name, norm)) {
            return name.substr(0, name.size() - norm.size());
        }
    }
    return {};
}

[[noreturn]] void refuse(const std::string& what, const File& holder, const File& other,
                         const std::string& side) {
    throw Error(ErrorCode::mismatch,
                printable(holder.path) + " holds the " + what + ", but by its name " +
                    printable(other.path) + ", which holds layers, stands " + side +
                    " it in the pipeline",
                "give each file the name that it was saved with: stages were exchanged");
}

}  // namespace

std::optional<Index> sample_of(const io::InputFile& input, const std::vector<Shard>& shards) {
    constexpr std::size_t kTensors = 8;
    constexpr Bytes kBytes = 256;
    if (std::ranges::any_of(shards, [](const Shard& shard) { return shard.piece.crc32 != 0; })) {
        return std::nullopt;
    }
    Fingerprint sample;
    bool is_telling = false;  // not one value throughout, as zeros and norms of ones are
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < shards.size(); i += shards.size() / kTensors + 1) {
        const Piece& piece = shards[i].piece;
        bytes.resize(std::min(piece.storage_bytes, kBytes));
        input.read_at(piece.base, bytes);
        sample.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
        constexpr std::size_t kElement = 8;
        is_telling =
            is_telling || (bytes.size() > kElement &&
                           !std::equal(bytes.begin() + kElement, bytes.end(), bytes.begin()));
    }
    return is_telling ? std::optional(static_cast<Index>(sample.value())) : std::nullopt;
}

void require_own_tensors(const std::vector<Shard>& shards, const std::vector<File>& files,
                         const std::vector<Coordinates>& places,
                         const std::vector<std::optional<Index>>& samples) {
    auto contents = contents_of(shards, files.size());
    for (const std::size_t file : indices(files)) {
        if (const auto& sample = samples[file]) {
            contents[file].is_known = true;
            contents[file].records.emplace_back(0, static_cast<std::uint64_t>(*sample));
        }
    }
    std::map<SizesAndSums, std::vector<std::size_t>> seen;
    for (const std::size_t file : indices(files)) {
        const Content& content = contents[file];
        if (!content.is_known || content.records.empty()) {
            continue;
        }
        auto& others = seen[content.records];
        for (const std::size_t other : others) {
            if (are_other_parts(places[other], places[file], content)) {
                throw Error(ErrorCode::mismatch,
                            printable(files[other].path) + " and " + printable(files[file].path) +
                                " hold the same bytes in all their " +
                                std::to_string(content.n_tensors) +
                                " tensors, but are different ranks",
                            "copy both again from where they were saved: one was copied over "
                            "another rank's file");
            }
        }
        others.push_back(file);
    }
}

void require_ends(const std::vector<Shard>& shards, const std::vector<File>& files) {
    constexpr std::string_view kLayers = "layers.";
    Spans all_layers;  // by stack: "decoder."
    Spans norms;       // by stack
    std::optional<LayerSpan> embedding;
    for (const auto& [kept, span] : spans_of(shards)) {
        const std::string_view name = kept;
        if (const auto layer = split_layer(name)) {
            add(all_layers, layer->stack.substr(0, layer->stack.size() - kLayers.size()), span);
        } else if (is_last_component(name, "embedding.word_embeddings.weight")) {
            embedding = embedding ? *embedding : span;
            embedding->add(span);
        } else if (const auto stack = stack_of_norm(name); !stack.empty()) {
            add(norms, stack, span);
        }
    }
    if (all_layers.size() == 1 && embedding) {
        const LayerSpan& layers = all_layers.begin()->second;
        if (layers.first < embedding->first) {
            refuse("word embedding", files[embedding->first_file], files[layers.first_file],
                   "before");
        }
    }
    for (const auto& [stack, norm] : norms) {
        auto* const layers = find_value(all_layers, stack);
        if (layers != nullptr && layers->last > norm.last) {
            refuse("final norm", files[norm.last_file], files[layers->last_file], "behind");
        }
    }
}

namespace {

// A tensor of a file: its model chunk and its name there.
using Name = std::pair<int, SharedText>;
using StageTensorNames = std::vector<Name>;

/// Any order, if it is the same for all files.
constexpr auto kByAddress = [](const Name& a, const Name& b) {
    return a.first != b.first ? a.first < b.first
                              : std::less<>()(&a.second.text(), &b.second.text());
};

std::vector<StageTensorNames> names_by_file(const std::vector<Shard>& shards, std::size_t n_files) {
    std::vector<std::size_t> n_names(n_files, 0);
    for (const Shard& shard : shards) {
        ++n_names[shard.piece.file];
    }
    std::vector<StageTensorNames> names(n_files);
    for (std::size_t file = 0; file < n_files; ++file) {
        names[file].reserve(n_names[file]);
    }
    for (const Shard& shard : shards) {
        names[shard.piece.file].emplace_back(shard.at.vpp, shard.name);
    }
    for (StageTensorNames& own : names) {
        std::ranges::sort(own, kByAddress);
    }
    return names;
}

[[noreturn]] void refuse(const StageTensorNames& lacking, const File& has, const File& lacks) {
    const std::string others =
        lacking.size() > 1 ? " and " + std::to_string(lacking.size() - 1) + " more" : "";
    throw Error(ErrorCode::not_found,
                "tensor " + printable(lacking.front().second) + others + " in " +
                    printable(has.path) + " but not in " + printable(lacks.path) +
                    ", of the same pipeline stage: one of the files is not whole or bears another "
                    "rank's name",
                "copy them again from where they were saved");
}

void compare(const StageTensorNames& a, const File& file_a, const StageTensorNames& b,
             const File& file_b) {
    StageTensorNames only;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only),
                        kByAddress);
    std::ranges::sort(only);
    if (!only.empty()) {
        refuse(only, file_a, file_b);
    }
}

}  // namespace

void require_same_names(const std::vector<Shard>& shards, const std::vector<File>& files,
                        const std::vector<Coordinates>& places) {
    const std::vector<StageTensorNames> names = names_by_file(shards, files.size());
    std::map<int, std::size_t> first_of_stage;
    for (const std::size_t file : indices(files)) {
        const std::size_t first = first_of_stage.try_emplace(places[file].pp, file).first->second;
        if (names[file] != names[first]) {
            compare(names[first], files[first], names[file], files[file]);
            compare(names[file], files[file], names[first], files[first]);
        }
    }
}

}  // namespace shardweld::formats::megatron
