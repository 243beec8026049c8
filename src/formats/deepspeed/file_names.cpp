#include "file_names.hpp"

#include <algorithm>
#include <array>

#include "core/names/name_rules.hpp"
#include "formats/registry.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// As path_rules.txt calls them, in the order of ZeroFile.
constexpr std::array<std::string_view, 6> kKinds = {
    "model", "part of a model", "layer", "expert", "partition", "optimizer of experts"};
// Far above any job; bounds the lists of missing files.
constexpr Index kLargestNumber = 1 << 20;

std::string_view first_pattern(ZeroFile kind) {
    return rule_of(name_rules().shards, zero_format.name, kKinds.at(static_cast<std::size_t>(kind)))
        .patterns.front();
}

}  // namespace

std::optional<FileName> parse_file_name(std::string_view name) {
    const auto found = match_rule(name_rules().shards, name, zero_format.name);
    if (!found || std::ranges::any_of(found->parts, [&](const auto& part) {
            return found->parts.number(part.first) > kLargestNumber;
        })) {
        return std::nullopt;
    }
    const NameParts& parts = found->parts;
    const auto kind = std::ranges::find(kKinds, found->rule->what) - kKinds.begin();
    return FileName{static_cast<ZeroFile>(kind), parts.number("mp"),    parts.number("dp"),
                    parts.number("number"),      parts.number("layer"), found->pattern};
}

std::string partition_name(const FileName& like, Index dp) {
    return name_with(like.pattern.empty() ? first_pattern(ZeroFile::partition) : like.pattern,
                     {{"dp", dp}, {"mp", like.mp}});
}

std::string states_name(Index mp, Index dp) {
    return name_with(first_pattern(ZeroFile::model_part), {{"dp", dp}, {"mp", mp}});
}

}  // namespace shardweld::formats::deepspeed
