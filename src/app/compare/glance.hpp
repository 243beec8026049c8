// Two tensors of a model directory compared without reading them whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::app {

/// Whether both have the same bytes where they are looked at: everywhere if they are small, else in
/// places all over them. Tensors that were trained apart differ in almost all rows. nullopt where
/// they are not both in safetensors among `files`. Error(io).
std::optional<bool> equal_at_a_glance(const fs::path& directory,
                                      const std::vector<std::string>& files, const std::string& one,
                                      const std::string& other);

}  // namespace shardweld::app
