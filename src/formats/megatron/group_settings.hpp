// An optimizer's parameter groups where every rank, or group of ranks, states them for itself.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/optimizer.hpp"
#include "formats/format.hpp"
#include "formats/shared/dcp_blobs.hpp"

namespace shardweld::formats::megatron {

/// Takes the same settings from several places.
class GroupSettings {
  public:
    /// `optimizer`: which of a rank's it is of. Error(mismatch) where another place says something
    /// else of that one, naming both.
    void add(const std::string& optimizer, std::vector<catalogue::ParameterGroup> groups,
             const std::string& place);

    /// Adds them, and their step. Error(unsupported) where that is not one.
    void finish(catalogue::Optimizer& out);

  private:
    struct Stated {
        std::vector<catalogue::ParameterGroup> groups;
        std::string place;
    };
    std::map<std::string, Stated> stated_;
};

/// Adds what an object among the shards says, called as
/// "chained_0.optimizer.distributed.dp_group_idx_1.optimizer"; others are left alone, and those in
/// files that are not seen here. Error(unsupported) for an object that is itself the state of a
/// group of ranks.
void add_group_settings(const Location& location, std::string_view name, const ObjectPlace& place,
                        GroupSettings& out);

}  // namespace shardweld::formats::megatron
