// One model-parallel rank: its parameters, and the partitions of its data-parallel ranks.
// Knows how parameters are laid out in flat groups; nothing of other model-parallel ranks.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"

#include "expert_numbers.hpp"
#include "flat_groups.hpp"
#include "partitions.hpp"

namespace shardweld::formats::deepspeed {

class ModelRank {
  public:
    struct Parameter {
        const catalogue::Tensor* declared;  ///< shape on this rank, dtype in the module
        std::vector<Run> runs;              ///< in order, covering it; none of an empty one
    };

    /// Takes parameters and rules of the first scan, that of the lowest data-parallel rank.
    void add_states(const std::string& file, const catalogue::Catalogue& scan);
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
    [[nodiscard]] const catalogue::Tensor* rule_for(const std::string& name) const;

    /// Counts the data-parallel ranks, and gives experts their numbers among all; `is_split`:
    /// ZeRO-3. Error(mismatch) where files contradict each other, Error(unsupported) for experts
    /// that are not DeepSpeed-MoE's.
    void arrange(bool is_split);
    /// All parameters, after arrange. Error(not_found) naming files that are missing and what is
    /// lost with them, Error(mismatch) where parameters and partitions differ in length.
    [[nodiscard]] std::vector<Parameter> locate() const;
    /// What locate leaves over.
    [[nodiscard]] Bytes padding_bytes() const;
    [[nodiscard]] Index data_ranks() const { return partitions_.n_ranks(); }

  private:
    /// Parameters that follow one another in a flat group, [begin, end) of all.
    struct Group {
        std::size_t number = 0;
        Index expert_rank = 0;
        std::size_t begin = 0;
        std::size_t end = 0;
    };

    void expand_groups();
    [[nodiscard]] catalogue::Tensor named_on(Index expert_rank, const ExpertNumbers& numbers,
                                             catalogue::Tensor tensor) const;
    [[nodiscard]] std::vector<Parameter> locate_in_groups() const;
    void locate_in_group(const Group& group, std::vector<Parameter>& found) const;
    [[nodiscard]] std::vector<Parameter> locate_in_ranks() const;
    void require_length(Index used, Index length, const std::string& where, Index slack) const;
    [[noreturn]] void fail_missing(const std::vector<Parameter>& parameters) const;

    std::string states_file_;
    std::vector<catalogue::Tensor> parameters_;
    std::map<std::string, std::vector<Index>> shapes_;  // local
    std::map<std::string, catalogue::Tensor> rules_;
    std::map<std::string, Index> facts_;
    Partitions partitions_;
    std::vector<Group> groups_;   // ZeRO-1 and 2
    std::vector<Index> missing_;  // data-parallel ranks
    bool is_split_ = false;
};

using ModelRanks = std::map<Index, ModelRank>;

}  // namespace shardweld::formats::deepspeed
