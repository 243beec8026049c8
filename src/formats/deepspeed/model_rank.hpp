// One model-parallel rank: the optimizer's files of its data-parallel ranks, in the order in which
// they follow one another, where its parameters lie in them, and the numbers of its experts: a rank
// counts its own from 0, the files of experts count all of them. Source: DeepSpeed 0.19.8
// deepspeed/runtime/engine.py (_save_moe_checkpoint).
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"

#include "file_names.hpp"
#include "flat_groups.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

/// What one optimizer's file holds.
struct Partition {
    std::string file;
    FileName name;
    std::vector<Shard> shards;  ///< its parts of the groups
    std::vector<FlatGroup> groups;
};

class Partitions {
  public:
    /// Error(mismatch) where there is one of this data-parallel rank.
    void add(Partition&& partition);
    /// Counts the ranks when all are added. `said`: what the model states `states_file` say;
    /// `is_split`: ZeRO-3. Error(mismatch) where files contradict each other.
    void count(const FileContent& said, const std::string& states_file, bool is_split);

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
    void require_zero(std::size_t group, const FlatRun& padding) const;
    /// ZeRO-3: the sub-groups of one rank, of `length` elements if its file is missing.
    [[nodiscard]] FlatLine line_of_rank(Index dp, Index length) const;

  private:
    void require_like_first(const Partition& partition, bool is_split);

    std::map<Index, Partition> files_;        // by data-parallel rank
    std::map<std::size_t, Index> divisions_;  // by group: among how many ranks
    Index n_ranks_ = 1;
    bool is_data_first_ = false;  // neighbouring ranks have the same experts
};

/// The flat partitions of one model-parallel rank, and where each parameter lies in them.
class ModelRank {
  public:
    struct Located {
        const FlatParameter* parameter;
        std::vector<FlatRun> runs;  ///< in order, covering it; none of an empty one
    };

    /// Takes parameters and rules of the first scan, that of the lowest data-parallel rank.
    void add_states(const std::string& file, FileContent content);
    /// Error(mismatch) where there is one of this data-parallel rank.
    void add_partition(Partition partition) { partitions_.add(std::move(partition)); }

    /// "" if none was added.
    [[nodiscard]] const std::string& states_file() const { return states_file_; }
    [[nodiscard]] bool declares(const std::string& name) const { return shapes_.contains(name); }
    /// Its local shape, or nullptr.
    [[nodiscard]] const std::vector<Index>* shape_of(const std::string& name) const;
    /// Adds its parameters `tied_modules.KEY.NAME` with this NAME and local shape.
    void find_tied(std::string_view name, const std::vector<Index>& shape,
                   std::set<std::string>& found) const;
    /// How it is joined with that of other ranks, or nullptr.
    [[nodiscard]] const JoinRule* rule_for(const std::string& name) const;

    /// Counts the data-parallel ranks, and gives experts their numbers among all; `is_split`:
    /// ZeRO-3. Error(mismatch) where files contradict each other, Error(unsupported) for experts
    /// that are not DeepSpeed-MoE's.
    void arrange(bool is_split);
    /// All parameters, after arrange. Error(not_found) naming files that are missing and what is
    /// lost with them, Error(mismatch) where parameters and partitions differ in length.
    [[nodiscard]] std::vector<Located> locate() const;
    /// Bytes of the partitions that hold no parameter.
    [[nodiscard]] Bytes padding_bytes() const;
    [[nodiscard]] Index data_ranks() const { return partitions_.n_ranks(); }

  private:
    /// Parameters that follow one another in a flat group, [begin, end) of all.
    struct GroupSpan {
        std::size_t number = 0;
        Index expert_rank = 0;
        std::size_t begin = 0;
        std::size_t end = 0;
    };

    void expand_groups();
    [[nodiscard]] std::vector<Located> locate_in_groups() const;
    void locate_in_group(const GroupSpan& group, std::vector<Located>& found) const;
    [[nodiscard]] std::vector<Located> locate_in_ranks() const;
    void require_length(Index used, Index length, const std::string& where, Index slack) const;
    [[noreturn]] void fail_missing(const std::vector<Located>& parameters) const;

    std::string states_file_;
    FileContent states_;                                // of the first file of model states
    std::map<std::string, std::vector<Index>> shapes_;  // local
    Partitions partitions_;
    std::vector<GroupSpan> groups_;  // ZeRO-1 and 2
    std::vector<Index> missing_;     // data-parallel ranks
    bool is_split_ = false;
};

using ModelRanks = std::map<Index, ModelRank>;

}  // namespace shardweld::formats::deepspeed
