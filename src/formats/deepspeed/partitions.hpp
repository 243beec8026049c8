// The optimizer's files of one model-parallel rank: how many ranks divided its flat groups, which
// files are there, and in which order they follow one another.
// Knows the lengths of groups; nothing of the parameters in them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"

#include "file_names.hpp"
#include "flat_groups.hpp"

namespace shardweld::formats::deepspeed {

/// What one optimizer's file holds.
struct Partition {
    std::string file;
    FileName name;
    std::vector<catalogue::Shard> groups;
    std::map<std::string, Index> facts;  ///< scan.hpp
};

class Partitions {
  public:
    /// Error(mismatch) where there is one of this data-parallel rank.
    void add(Partition partition);
    /// Counts the ranks when all are added. `said`: the facts of the model states `states_file`;
    /// `is_split`: ZeRO-3. Error(mismatch) where files contradict each other.
    void count(const std::map<std::string, Index>& said, const std::string& states_file,
               bool is_split);

    [[nodiscard]] bool is_empty() const { return files_.empty(); }
    /// The lowest rank's, of those that are there.
    [[nodiscard]] const Partition& first() const { return files_.begin()->second; }
    /// Data-parallel ranks.
    [[nodiscard]] Index n_ranks() const { return n_ranks_; }
    /// Data-parallel ranks whose files are not there.
    [[nodiscard]] std::vector<Index> missing() const;
    [[nodiscard]] Bytes stored_bytes() const;
    /// ZeRO-1 and 2: 1, but of a group of experts how many ranks have other experts than the first.
    [[nodiscard]] Index n_expert_ranks(std::size_t group) const;
    /// ZeRO-1 and 2: the partitions of one group. One that is missing is as long as the others.
    [[nodiscard]] FlatLine line_of_group(std::size_t group, Index expert_rank) const;
    /// Error(mismatch) unless the rest of a rank's group from a run on is zero.
    void require_zero(std::size_t group, const Run& padding) const;
    /// ZeRO-3: the sub-groups of one rank, of `length` elements if its file is missing.
    [[nodiscard]] FlatLine line_of_rank(Index dp, Index length) const;

  private:
    void require_like_first(const Partition& partition, bool is_split);

    std::map<Index, Partition> files_;        // by data-parallel rank
    std::map<std::size_t, Index> divisions_;  // by group: among how many ranks
    Index n_ranks_ = 1;
    bool is_data_first_ = false;  // neighbouring ranks have the same experts
};

}  // namespace shardweld::formats::deepspeed
