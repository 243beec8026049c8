// Models that are mounted on this host, by programs that live or not.
#pragma once

#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::app {

/// What does without a mount, for hints.
inline constexpr const char* kInsteadOfMount =
    "shardweld.safe_open reads the same tensors in Python, and merge writes them";

/// A mounted model, as this process sees it.
struct ModelMount {
    fs::path point;
    std::string source;  ///< the checkpoint
};

/// Those of all users; none where the system does not tell.
std::vector<ModelMount> model_mounts();

/// Whether nobody answers there any more: its process was killed.
bool is_dead_mount(const fs::path& point);

/// Takes a mount away, itself or by fusermount3, which users have for it. The errno of what went
/// wrong, EBUSY while it is used; 0: it is gone.
int take_away(const fs::path& point);

}  // namespace shardweld::app
