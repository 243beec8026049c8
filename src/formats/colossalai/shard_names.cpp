#include "shard_names.hpp"

#include "core/names/name_rules.hpp"
#include "formats/registry.hpp"

namespace shardweld::formats::colossalai {

namespace {

std::optional<StagedName> parse_staged(const std::vector<NameRule>& rules, std::string_view file) {
    const auto found = match_rule(rules, file, sharded_format.name);
    if (!found) {
        return std::nullopt;
    }
    StagedName name{std::string(found->rule->what), "", std::nullopt};
    if (const auto stage = found->parts.find("stage"); stage != found->parts.end()) {
        auto* const expert = find_value(found->parts, "expert");
        name.number = found->parts.number("stage");
        name.stage = stage->second;
        name.stage += expert == nullptr ? "" : "-" + std::string(*expert);
    }
    return name;
}

}  // namespace

std::optional<StagedName> parse_shard(std::string_view file) {
    return parse_staged(name_rules().shards, file);
}

std::optional<StagedName> parse_stage_index(std::string_view file) {
    return parse_staged(name_rules().indices, file);
}

std::string stage_index_name(const StagedName& name) {
    return name.model + ".index-stage-" + name.stage + ".json";
}

}  // namespace shardweld::formats::colossalai
