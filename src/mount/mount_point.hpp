// What can be told of a mount before anything is read.
#pragma once

#include "app/settings/job.hpp"
#include "core/path.hpp"

namespace shardweld::mount {

/// The place where a job's model is to be seen, resolved: an empty directory of this user's, apart
/// from what is read. Error(target) where it is none, Error(unsupported) where this system lets
/// nobody, or not this user, mount.
fs::path checked_point(const app::Job& job);

}  // namespace shardweld::mount
