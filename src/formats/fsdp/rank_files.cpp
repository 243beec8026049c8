#include "rank_files.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/json.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/whole_file.hpp"

#include "../directory_listing.hpp"
#include "../shared/hints.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr std::string_view kPrefix = "model_world_size_";
constexpr std::string_view kMiddle = "_rank_";
constexpr std::string_view kSuffix = ".pt";
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
    auto root = shardweld::parse_json<nlohmann::json>(text, &fault);
    if (!fault) {
        return root;
    }
    const std::string at = "at byte " + std::to_string(fault->at + 1);
    switch (fault->kind) {
        case JsonFault::Kind::syntax:
            refuse(file, at + " of " + std::to_string(text.size()));
        case JsonFault::Kind::number:
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

}  // namespace

std::string file_name(const RankFile& file) {
    return std::string(kPrefix) + std::to_string(file.world) + std::string(kMiddle) +
           std::to_string(file.rank) + std::string(kSuffix);
}

std::optional<RankFile> parse_file_name(std::string_view name) {
    const std::size_t middle = name.find(kMiddle);
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || middle == name.npos ||
        middle < kPrefix.size() || middle + kMiddle.size() + kSuffix.size() > name.size()) {
        return std::nullopt;
    }
    const auto world = parse_index(name.substr(kPrefix.size(), middle - kPrefix.size()));
    const std::size_t begin = middle + kMiddle.size();
    const auto rank = parse_index(name.substr(begin, name.size() - kSuffix.size() - begin));
    return world && rank ? std::optional(RankFile{*world, *rank}) : std::nullopt;
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
        if (const auto file = parse_file_name(name)) {
            by_world[file->world].push_back(name);
        }
    }
    if (by_world.empty()) {
        return {};
    }
    if (!config && by_world.size() > 1) {
        throw Error(ErrorCode::mismatch,
                    "rank files of several world sizes lie in one directory (" +
                        by_world.begin()->second.front() + ", " +
                        by_world.rbegin()->second.front() +
                        ") and fsdp_config.json is not there to choose",
                    "remove those of the older save");
    }
    if (config && !by_world.contains(config->world_size)) {
        throw Error(ErrorCode::mismatch,
                    "fsdp_config.json says world_size " + std::to_string(config->world_size) +
                        ", but the files are of world size " +
                        std::to_string(by_world.begin()->first) + " (" +
                        by_world.begin()->second.front() + ")",
                    kOneSave);
    }
    const Index world = config ? config->world_size : by_world.begin()->first;
    return by_world[world];
}

std::vector<RankFile> ranks_of(const std::vector<std::string>& names) {
    std::vector<RankFile> ranks;
    std::map<Index, const std::string*> seen;
    for (const std::string& name : names) {
        const RankFile file = parse_file_name(name).value_or(RankFile{});
        const Index world = ranks.empty() ? file.world : ranks.front().world;
        const auto [at, is_new] = seen.emplace(file.rank, &name);
        if (file.world != world || !is_new) {
            throw Error(ErrorCode::mismatch,
                        (is_new ? names.front() : *at->second) + " and " + name +
                            (is_new ? " are of different world sizes" : " are of the same rank"),
                        kOneSave);
        }
        if (file.rank >= world || world > kLargestWorld) {
            throw Error(ErrorCode::mismatch, name + " is of a rank outside of its world size",
                        kOneSave);
        }
        ranks.push_back(file);
    }
    return ranks;
}

std::vector<std::string> missing_files(const std::vector<RankFile>& present) {
    std::set<Index> ranks;
    for (const RankFile& file : present) {
        ranks.insert(file.rank);
    }
    std::vector<std::string> missing;
    const Index world = present.empty() ? 0 : present.front().world;
    for (Index rank = 0; rank < world; ++rank) {
        if (!ranks.contains(rank)) {
            missing.push_back(file_name({world, rank}));
        }
    }
    return missing;
}

}  // namespace shardweld::formats::fsdp
