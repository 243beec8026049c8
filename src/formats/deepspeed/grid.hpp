// How many ranks saved a checkpoint, and at which ZeRO stage, as all files say alike.
// Knows names and facts of files; nothing of tensors.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "file_names.hpp"
#include "model_rank.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

class Grid {
  public:
    /// What one file says. Error(mismatch) where another says otherwise.
    void note(const FileContent& content, const std::string& path, const FileName& name);
    /// When all files are noted. Model-parallel ranks are counted pipeline stage by pipeline stage.
    /// Error(not_found) where the model states of one are missing, Error(mismatch), Error(corrupt).
    void settle(const ModelRanks& ranks);

    /// ZeRO-3.
    [[nodiscard]] bool is_split() const { return is_split_; }
    [[nodiscard]] Index n_tensor_ranks() const { return n_tensor_ranks_; }
    /// Model states of ZeRO-3 that are not there: they hold parts of frozen parameters.
    [[nodiscard]] std::vector<std::string> absent_states(const ModelRanks& ranks) const;
    void add_facts(const ModelRanks& ranks, bool has_partitions, catalogue::Catalogue& out) const;

  private:
    [[nodiscard]] std::optional<Index> said(const char* fact) const;

    std::map<std::string, std::pair<Index, std::string>> said_;  // fact: value, file
    std::string whole_states_;                                   // a file of ZeRO 0 to 2
    std::string split_states_;                                   // one of ZeRO-3
    std::map<Index, std::set<Index>> states_of_;  // of ZeRO-3: data-parallel by model-parallel rank
    bool is_split_ = false;
    Index n_tensor_ranks_ = 1;
};

}  // namespace shardweld::formats::deepspeed
