#include "shard_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"

namespace shardweld::formats::colossalai {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kKinds = {
    {{"model", ".safetensors"}, {"pytorch_model", ".bin"}}};
constexpr std::string_view kStage = "-stage-";
constexpr std::string_view kShard = "-shard";
constexpr std::string_view kIndex = ".index";
constexpr std::string_view kJson = ".json";

bool take_prefix(std::string_view& text, std::string_view prefix) {
    const bool has = text.starts_with(prefix);
    text.remove_prefix(has ? prefix.size() : 0);
    return has;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
    const bool has = text.ends_with(suffix);
    text.remove_suffix(has ? suffix.size() : 0);
    return has;
}

bool is_number(std::string_view text) {
    return parse_index(text).has_value();
}

// "00001", and with experts "00001-00002".
std::optional<StagedName> staged(std::string model, std::string_view stage) {
    const auto parts = split(stage, '-');
    if (parts.size() > 2 || !std::ranges::all_of(parts, is_number)) {
        return std::nullopt;
    }
    return StagedName{std::move(model), std::string(stage), parse_index(parts.front())};
}

}  // namespace

std::optional<StagedName> parse_shard(std::string_view file) {
    for (const auto& [stem, suffix] : kKinds) {
        std::string_view rest = file;
        const std::size_t last = rest.rfind('-');
        if (!rest.starts_with(stem) || !take_suffix(rest, suffix) || last >= rest.size() ||
            !is_number(rest.substr(last + 1))) {
            continue;
        }
        rest = rest.substr(0, last);
        std::string model = std::string(stem) + std::string(suffix);
        take_prefix(rest, stem);
        if (rest.empty()) {
            return StagedName{std::move(model), "", std::nullopt};
        }
        if (take_prefix(rest, kStage) && take_suffix(rest, kShard)) {
            return staged(std::move(model), rest);
        }
    }
    return std::nullopt;
}

std::optional<StagedName> parse_stage_index(std::string_view file) {
    for (const auto& [stem, suffix] : kKinds) {
        std::string_view rest = file;
        std::string model = std::string(stem) + std::string(suffix);
        if (take_prefix(rest, model) && take_prefix(rest, kIndex) && take_prefix(rest, kStage) &&
            take_suffix(rest, kJson)) {
            return staged(std::move(model), rest);
        }
    }
    return std::nullopt;
}

std::string stage_index_name(const StagedName& name) {
    return name.model + std::string(kIndex) + std::string(kStage) + name.stage + std::string(kJson);
}

}  // namespace shardweld::formats::colossalai
