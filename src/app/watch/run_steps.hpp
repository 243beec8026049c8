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

struct RunSteps {
    std::vector<StepPlace> steps;    ///< the lowest number first; each name once
    std::vector<StepPlace> doubles;  ///< that have the name of another one
};

/// All steps in a directory and, where it has none itself, up to three levels below it. Those in
/// `others`, the outputs, are none of the run's. None where the directory is not there. Local.
/// Error(io).
RunSteps steps_of(const fs::path& run, const std::vector<fs::path>& others);

/// What the files in the directory of steps say of the last one. Local. Error(io).
std::vector<Tracker> trackers_in(const fs::path& directory);

}  // namespace shardweld::app::watching
