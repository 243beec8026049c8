// One model-parallel rank: its parameters, and the partitions of its data-parallel ranks.
// Knows how flat groups are laid out over ranks; nothing of other model-parallel ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"

#include "file_names.hpp"
#include "flat_groups.hpp"

namespace shardweld::formats::deepspeed {

class ModelRank {
  public:
    /// What one optimizer's file holds.
    struct Partition {
        std::string file;
        FileName name;
        std::vector<catalogue::Shard> groups;
        std::map<std::string, Index> facts;  ///< scanned.hpp
    };
    struct Parameter {
        const catalogue::Tensor* declared;  ///< shape on this rank, dtype in the module
        std::vector<Run> runs;              ///< in order, covering it; none of an empty one
    };

    /// Takes parameters and rules of the first scan, that of the lowest data-parallel rank.
    void add_states(const std::string& file, const catalogue::Catalogue& scan);
    /// Error(mismatch) where there is one of this data-parallel rank.
    void add_partition(Partition partition);

    /// "" if none was added.
    [[nodiscard]] const std::string& states_file() const { return states_file_; }
    [[nodiscard]] bool declares(const std::string& name) const { return shapes_.contains(name); }
    /// Its local shape, or nullptr.
    [[nodiscard]] const std::vector<Index>* shape_of(const std::string& name) const;
    /// How it is joined with that of other ranks, or nullptr.
    [[nodiscard]] const catalogue::Tensor* rule_for(const std::string& name) const;

    /// Counts the data-parallel ranks; `is_split`: ZeRO-3. Error(mismatch) where files contradict
    /// each other.
    void arrange(bool is_split);
    /// All parameters, after arrange. Error(not_found) naming files that are missing and what is
    /// lost with them, Error(mismatch) where parameters and partitions differ in length.
    [[nodiscard]] std::vector<Parameter> locate() const;
    /// What locate leaves over.
    [[nodiscard]] Bytes padding_bytes() const;
    [[nodiscard]] Index data_ranks() const { return n_ranks_; }

  private:
    [[nodiscard]] std::vector<Parameter> locate_in_groups() const;
    [[nodiscard]] std::vector<Parameter> locate_in_ranks() const;
    [[nodiscard]] FlatLine line_of_group(std::size_t group) const;
    void require_length(Index used, Index length, const std::string& where, Index slack) const;
    void require_all(const std::vector<Parameter>& parameters) const;
    void count_ranks();

    std::string states_file_;
    std::vector<catalogue::Tensor> parameters_;
    std::map<std::string, std::vector<Index>> shapes_;  // local
    std::map<std::string, catalogue::Tensor> rules_;
    std::map<std::string, Index> facts_;
    std::map<Index, Partition> partitions_;  // by data-parallel rank
    std::vector<Index> missing_;             // data-parallel ranks
    Index n_ranks_ = 1;
    bool is_split_ = false;
};

using ModelRanks = std::map<Index, ModelRank>;

}  // namespace shardweld::formats::deepspeed
