// Optional tensors that are stored together or not at all: the parts of an MTP layer.
// Knows which names were found; not where they lie.
#pragma once

#include <map>
#include <string>

#include "hub_names.hpp"

namespace shardweld::plan {

class Together {
  public:
    /// `hub`: a name whose line says `together`.
    void note(const HubName& hub, bool is_stored);

    /// Error(mismatch) when of one group some are stored and some are not.
    void check(const std::string& hint) const;

  private:
    struct StoredTogether {
        std::string stored;  ///< the first name, "" if none
        std::string absent;
        std::string origin;  ///< of the absent one's line
        Index n_absent = 0;
    };
    std::map<std::string, StoredTogether>
        groups_;  ///< by the logical name up to its first capture's value
};

}  // namespace shardweld::plan
