#include "run_steps.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <sys/stat.h>

#include "formats/shared/directory_listing.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "io/paths.hpp"

namespace shardweld::app::watching {

namespace {

constexpr int kLevelsBelowRun = 3;

void add_steps(const fs::path& directory, const std::vector<fs::path>& others, int depth,
               std::vector<StepPlace>& steps) {
    const formats::Listing listing = formats::try_list_directory(directory);
    const std::size_t n_before = steps.size();
    for (const std::string& name : listing.directories) {
        const auto step = formats::parse_step(name);
        if (step && step->iteration) {
            steps.push_back({*step->iteration, name, directory / name});
        }
    }
    if (steps.size() > n_before || depth == kLevelsBelowRun) {
        return;
    }
    for (const std::string& name : listing.directories) {
        const fs::path below = directory / name;
        const bool is_link = std::ranges::count(listing.links, name) > 0;
        if (!name.starts_with('.') && !is_link && std::ranges::count(others, below) == 0) {
            add_steps(below, others, depth + 1, steps);
        }
    }
}

}  // namespace

RunSteps steps_of(const fs::path& run, const std::vector<fs::path>& others) {
    std::vector<StepPlace> all;
    add_steps(run, others, 0, all);
    RunSteps found;
    std::set<std::string> names;
    for (StepPlace& step : all) {
        (names.insert(step.name).second ? found.steps : found.doubles).push_back(std::move(step));
    }
    std::ranges::stable_sort(found.steps, {}, &StepPlace::number);
    return found;
}

std::vector<Tracker> trackers_in(const fs::path& directory) {
    std::vector<Tracker> trackers;
    const formats::Listing listing = formats::try_list_directory(directory);
    for (const formats::LastSave& save : formats::last_saves(directory, listing)) {
        const fs::path path = directory / save.file;
        struct stat status {};
        if (::stat(path.c_str(), &status) == 0) {
            trackers.push_back(
                {save.file, save.iteration, io::stamp_of(status, path.c_str()).modified_ns});
        }
    }
    return trackers;
}

}  // namespace shardweld::app::watching
