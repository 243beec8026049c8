#include "partitions.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr Index kMostRanks = 1 << 20;

std::optional<Index> said_in(const std::map<std::string, Index>& facts, const std::string& name) {
    const auto at = facts.find(name);
    return at == facts.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace

void Partitions::add(Partition partition) {
    const Index dp = partition.name.dp;
    const auto [at, is_new] = files_.try_emplace(dp, std::move(partition));
    if (!is_new) {
        throw Error(ErrorCode::mismatch,
                    printable(at->second.file) + " and " + printable(partition.file) +
                        " are of the same rank",
                    kOneSave);
    }
}

void Partitions::count(const std::map<std::string, Index>& said, const std::string& states_file,
                       bool is_split) {
    for (const auto& [dp, partition] : files_) {
        require_like_first(partition, is_split);
    }
    is_data_first_ = said_in(said, kDataFirst).value_or(0) != 0;
    const Index found = files_.empty() ? 0 : files_.rbegin()->first + 1;
    const auto states = said_in(said, kDataRanks);
    n_ranks_ = divisions_.empty() ? states.value_or(std::max<Index>(found, 1)) : 0;
    for (const auto& [group, ranks] : divisions_) {
        n_ranks_ = std::max(n_ranks_, ranks);
    }
    const std::string speaker = printable(divisions_.empty() ? states_file : first().file);
    if (n_ranks_ < 1 || n_ranks_ > kMostRanks || found > n_ranks_) {
        throw Error(ErrorCode::mismatch,
                    speaker + " says that " + std::to_string(n_ranks_) +
                        " data-parallel ranks saved, but there are files of " +
                        std::to_string(found) +
                        (files_.empty() ? "" : ": " + printable(files_.rbegin()->second.file)),
                    kOneSave);
    }
    // With sequence parallelism a rank counts more than once.
    if (states && (*states < 1 || n_ranks_ % *states != 0)) {
        throw Error(ErrorCode::mismatch,
                    "dp_world_size is " + std::to_string(*states) + " in " +
                        printable(states_file) + ", but the weights are divided among " +
                        std::to_string(n_ranks_) + " ranks by " + speaker,
                    kOneSave);
    }
    for (const auto& [group, ranks] : divisions_) {
        if (ranks < 1 || n_ranks_ % ranks != 0) {
            throw Error(ErrorCode::mismatch,
                        "partition_count of group " + std::to_string(group) + " is " +
                            std::to_string(ranks) + " of " + std::to_string(n_ranks_) +
                            " ranks in " + speaker,
                        kOneSave);
        }
    }
}

// All ranks have the same groups, divided among as many. ZeRO-3's sub-groups depend on the rank.
void Partitions::require_like_first(const Partition& partition, bool is_split) {
    if (!is_split && partition.groups.size() != first().groups.size()) {
        throw Error(ErrorCode::mismatch,
                    printable(first().file) + " holds " + std::to_string(first().groups.size()) +
                        " flat groups, but " + printable(partition.file) + " " +
                        std::to_string(partition.groups.size()),
                    kOneSave);
    }
    for (std::size_t group = 0; group < partition.groups.size(); ++group) {
        const auto said = said_in(partition.facts, ranks_key(group));
        const Index known = said ? divisions_.try_emplace(group, *said).first->second : 0;
        if (said && *said != known) {
            throw Error(ErrorCode::mismatch,
                        "partition_count is " + std::to_string(known) + " in " +
                            printable(first().file) + " but " + std::to_string(*said) + " in " +
                            printable(partition.file),
                        kOneSave);
        }
    }
}

std::vector<Index> Partitions::missing() const {
    std::vector<Index> missing;
    for (Index dp = 0; dp < n_ranks_; ++dp) {
        if (!files_.contains(dp)) {
            missing.push_back(dp);
        }
    }
    return missing;
}

Bytes Partitions::stored_bytes() const {
    Bytes bytes = 0;
    for (const auto& [dp, partition] : files_) {
        for (const catalogue::Shard& shard : partition.groups) {
            bytes += to_bytes(shard.shape.front(), "elements") * size_of(shard.dtype);
        }
    }
    return bytes;
}

Index Partitions::n_expert_ranks(std::size_t group) const {
    const auto at = divisions_.find(group);
    return at == divisions_.end() ? 1 : n_ranks_ / at->second;
}

FlatLine Partitions::line_of_group(std::size_t group, Index expert_rank) const {
    const Index n_expert = n_expert_ranks(group);
    const Index n_copies = n_ranks_ / n_expert;
    FlatLine line;
    for (Index i = 0; i < n_copies; ++i) {
        const Index dp = is_data_first_ ? expert_rank * n_copies + i : i * n_expert + expert_rank;
        const auto at = files_.find(dp);
        const bool is_there = at != files_.end();
        const catalogue::Shard& shard = (is_there ? at->second : first()).groups[group];
        line.append(is_there ? &shard : nullptr, shard.shape.front(), dp);
    }
    return line;
}

void Partitions::require_zero(std::size_t group, const Run& padding) const {
    const auto at = files_.find(padding.rank);
    const auto end = at == files_.end() ? std::nullopt : said_in(at->second.facts, end_key(group));
    if (!end || *end <= padding.at) {
        return;
    }
    const Index length = at->second.groups[group].shape.front();
    throw Error(ErrorCode::mismatch,
                "the last " + std::to_string(length - padding.at) + " elements of flat group " +
                    std::to_string(group) + " in " + printable(at->second.file) +
                    " are padding, but element " + std::to_string(*end - 1) + " of " +
                    std::to_string(length) + " is not zero",
                "copy the file again from where it was saved: it is damaged, or of another model");
}

FlatLine Partitions::line_of_rank(Index dp, Index length) const {
    FlatLine line;
    const auto at = files_.find(dp);
    if (at == files_.end()) {
        line.append(nullptr, length, dp);
        return line;
    }
    for (const catalogue::Shard& shard : at->second.groups) {
        line.append(&shard, shard.shape.front(), dp);
    }
    return line;
}

}  // namespace shardweld::formats::deepspeed
