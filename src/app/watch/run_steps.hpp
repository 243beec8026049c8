// Which steps a run has, and what the files beside them say.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

#include "signs.hpp"

namespace shardweld::app::watching {

/// The directory of a step.
struct StepPlace {
    Index number = 0;
    std::string name;  ///< of the directory: "global_step_10"
    fs::path path;
};

/// All steps in a directory and, where it has none itself, up to three levels below it, the lowest
/// number first. Steps in `others`, the outputs, are none of the run's; nor is a second one of a
/// name that another directory has. None where the directory is not there. Local. Error(io).
std::vector<StepPlace> steps_of(const fs::path& run, const std::vector<fs::path>& others);

/// What the files in the directory of steps say of the last one. Local. Error(io).
std::vector<Claim> claims_in(const fs::path& directory);

}  // namespace shardweld::app::watching
