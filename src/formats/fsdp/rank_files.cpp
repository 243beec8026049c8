#include "rank_files.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/names/name_rules.hpp"
#include "formats/registry.hpp"
#include "formats/shared/hints.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr Bytes kLargestConfig = 1U << 20U;
// Far above any job; bounds the lists of missing files.
constexpr Index kLargestWorld = 1 << 20;

[[noreturn]] void refuse(const fs::path& file, const std::string& where) {
    throw Error(ErrorCode::corrupt, file.string() + " is not valid JSON: it goes wrong " + where,
                "copy it again, or remove it and the names of the rank files decide");
}

nlohmann::json parse(const fs::path& file) {
    const std::string text = io::read_text(file, kLargestConfig);
    std::optional<JsonFault> fault;
    auto root = parse_json<nlohmann::json>(text, &fault);
    if (!fault) {
        return root;
    }
    const std::string at = "at byte " + std::to_string(fault->at + 1);
    switch (fault->kind) {
        case JsonFlaw::mark:
        case JsonFlaw::syntax:
            refuse(file, at + " of " + std::to_string(text.size()));
        case JsonFlaw::number:
            refuse(file, "with a number that is too large");
        default:
            refuse(file, "in its nesting " + at);
    }
}

std::optional<Index> number_in(const nlohmann::json& root, const char* key) {
    const auto at = root.find(key);
    return at != root.end() && at->is_number_integer() ? std::optional(at->get<Index>())
                                                       : std::nullopt;
}

[[noreturn]] void refuse_several(const std::string& a, const std::string& b, bool are_models) {
    throw Error(ErrorCode::mismatch,
                are_models
                    ? "rank files of several models lie in one directory (" + a + ", " + b + ")"
                    : "rank files of several world sizes lie in one directory (" + a + ", " + b +
                          ") and fsdp_config.json is not there to choose",
                are_models ? "move those of each to a directory of its own"
                           : "remove those of the older save");
}

}  // namespace

std::string file_name(const RankFile& file) {
    return name_with(file.stem.empty()
                         ? rule_of(name_rules().shards, fsdp_format.name).patterns.front()
                         : file.stem,
                     {{"world", file.world}, {"rank", file.rank}});
}

std::string file_beside(const std::string& model_file, std::string_view what) {
    constexpr std::string_view kOfModel = "model";
    return std::string(what) + model_file.substr(std::min(kOfModel.size(), model_file.size()));
}

std::optional<RankFile> parse_file_name(std::string_view name) {
    if (const auto of_verl = match_rule(name_rules().shards, name, fsdp_format.name)) {
        return RankFile{of_verl->parts.number("world"), of_verl->parts.number("rank"), ""};
    }
    const auto found = match_rule(name_rules().shards, name, accelerate_format.name);
    return found ? std::optional(RankFile{
                       0, found->parts.number("rank"),
                       std::string(name.substr(0, name.rfind("_rank"))) + "_rank{rank}.bin"})
                 : std::nullopt;
}

FsdpConfig read_fsdp_config(const fs::path& file) {
    const auto root = parse(file);
    const auto world = root.is_object() ? number_in(root, "world_size") : std::nullopt;
    if (!world || *world < 1 || *world > kLargestWorld) {
        throw Error(ErrorCode::corrupt, file.string() +
                                            " gives no world_size; expected a JSON object such as "
                                            "{\"FSDP_version\": 2, \"world_size\": 8}");
    }
    return {*world, number_in(root, "FSDP_version")};
}

std::vector<std::string> choose_rank_files(const std::vector<std::string>& names,
                                           const std::optional<FsdpConfig>& config) {
    std::map<Index, std::vector<std::string>> by_world;
    for (const std::string& name : names) {
        if (const auto file = parse_file_name(name); file && file->stem.empty()) {
            by_world[file->world].push_back(name);
        }
    }
    if (by_world.empty()) {
        return {};
    }
    if (!config && by_world.size() > 1) {
        refuse_several(by_world.begin()->second.front(), by_world.rbegin()->second.front(), false);
    }
    if (config && !by_world.contains(config->world_size)) {
        const auto& [other, files] = *by_world.begin();
        require_equal("world_size", config->world_size, "fsdp_config.json", other, files.front());
    }
    const Index world = config ? config->world_size : by_world.begin()->first;
    return by_world[world];
}

std::vector<std::string> choose_accelerate_files(const std::vector<std::string>& names) {
    std::map<std::string, std::vector<std::string>> by_stem;
    for (const std::string& name : names) {
        if (const auto file = parse_file_name(name); file && !file->stem.empty()) {
            by_stem[file->stem].push_back(name);
        }
    }
    if (by_stem.size() > 1) {
        refuse_several(by_stem.begin()->second.front(), by_stem.rbegin()->second.front(), true);
    }
    return by_stem.empty() ? std::vector<std::string>() : by_stem.begin()->second;
}

RankFile rank_among(const std::vector<std::string>& names, const std::string& name) {
    RankFile file = ranks_of({name}).front();
    // All files would be looked at for each of them.
    if (!file.stem.empty() && !names.empty()) {
        const auto last = parse_file_name(names.back());
        file.world = std::max(file.world, last ? checked_add(last->rank, 1, "a world size") : 0);
    }
    return file;
}

std::vector<RankFile> ranks_of(const std::vector<std::string>& names) {
    std::vector<RankFile> ranks;
    Index highest = 0;
    for (const std::string& name : names) {
        highest = std::max(highest, parse_file_name(name).value_or(RankFile{}).rank);
    }
    std::map<Index, const std::string*> seen;
    for (const std::string& name : names) {
        RankFile file = parse_file_name(name).value_or(RankFile{});
        file.world = file.stem.empty() ? file.world : checked_add(highest, 1, "a world size");
        const Index world = ranks.empty() ? file.world : ranks.front().world;
        const auto [at, is_new] = seen.emplace(file.rank, &name);
        if (!is_new) {
            throw catalogue::same_part(*at->second, name);
        }
        require_equal("the world size", world, names.front(), file.world, name);
        require_at_most("the world size", file.rank + 1, std::min(world, kLargestWorld), name);
        ranks.push_back(std::move(file));
    }
    return ranks;
}

std::vector<std::string> missing_files(const std::vector<RankFile>& present) {
    std::set<Index> ranks = collect_set(present, &RankFile::rank);
    const Index world = present.empty() ? 0 : present.front().world;
    return collect_list(catalogue::not_covered(ranks, 0, world - 1), [&](Index rank) {
        return file_name({world, rank, present.front().stem});
    });
}

}  // namespace shardweld::formats::fsdp
