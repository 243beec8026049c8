// The sizes that stored tensors have, and what config.json would have to say for them: errors name
// its fields, not layouts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

#include "mismatches.hpp"
#include "store_match.hpp"

namespace shardweld::plan {

/// A field of config.json, and what the checkpoint has instead.
struct FieldDifference {
    std::string field;
    std::optional<Index> said;  ///< nullopt: config.json does not have the field
    Index stored = 0;
    /// Another field that would explain as much, and its number; "" if there is none.
    std::pair<std::string, Index> otherwise;
};

/// "this config.json is another model's: vocab_size 251, the checkpoint has 101; hidden_size 64 and
/// 48"; of what an option says
/// "--vocab_size 513 does not fit: the checkpoint has 512".
Mismatches::Explanation explanation_of(const std::vector<FieldDifference>& differences,
                                       const Model& model);

/// An Error(mismatch) in the words of config.json, with `error` as its detail, for a tensor with as
/// many dims as its line and another extent in one of them; else `error`.
Error in_config_words(Error error, const catalogue::Tensor& tensor, const StoreMatch& match,
                      const Model& model);

/// Collects the sizes that are stored, and finds fields of config.json that would fit them.
class StoredSizes {
  public:
    /// A stored tensor, and the line that takes it.
    void add_tensor(const StoreMatch& match, const std::vector<Index>& shape);

    /// The fewest fields, each found by trying what number would make the most sizes right.
    /// `is_short`: names are missing, so that there may be fewer layers or experts than config.json
    /// says. Empty where no field explains anything.
    [[nodiscard]] std::vector<FieldDifference> differences(const Model& model, bool is_short) const;

  private:
    std::map<std::pair<const models::Line*, std::vector<Index>>, models::Captures> shapes_;
    std::map<std::string, Index> counts_;  ///< by capture: the largest number and one
};

}  // namespace shardweld::plan
