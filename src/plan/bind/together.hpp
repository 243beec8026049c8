// Tensors that are stored together or not at all, such as those of one MTP layer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/index.hpp"

#include "hub_names.hpp"

namespace shardweld::plan {

/// Collects which tensors of each group are stored.
class Together {
  public:
    /// `hub`: a name whose line says `together`.
    void add_name(const HubName& hub, bool is_stored);

    /// Error(mismatch) when of one group some are stored and some are not, or when a group is
    /// stored behind one that is not.
    void check(const std::string& hint) const;

    /// How many groups of a prefix ("mtp.") are stored; nullopt when there is none that could be.
    [[nodiscard]] std::optional<Index> n_stored(std::string_view prefix) const;

  private:
    struct StoredTogether {
        std::string stored;  ///< the first name, "" if none
        std::string absent;
        std::string origin;  ///< of the absent one's line
        Index n_absent = 0;
    };
    /// By the logical name up to its first capture, and that one's value; by all but the last part
    /// of a name without one.
    std::map<std::pair<std::string, Index>, StoredTogether> groups_;
};

}  // namespace shardweld::plan
