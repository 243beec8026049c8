// `shardweld inspect RUN --steps`: the saves below a training run's directory, and what the files
// beside them say of the last one.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "io/paths.hpp"
#include "io/stamp.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

constexpr int kStepsSchema = 1;
constexpr int kLevelsBelowRun = 3;

/// The directory of a step that has a number, and that which it lies in.
using StepPlace = std::pair<formats::IterationDirectory, fs::path>;

/// Those in a directory, or where it has none itself, in those below it.
void add_steps(const fs::path& directory, int depth, std::vector<StepPlace>& steps) {
    const formats::Listing listing =
        depth == 0 ? formats::list_directory(directory) : formats::try_list_directory(directory);
    const std::size_t n_before = steps.size();
    for (const std::string& name : listing.directories) {
        auto step = formats::parse_step(name);
        if (step && step->iteration) {
            steps.emplace_back(std::move(*step), directory);
        }
    }
    if (steps.size() > n_before || depth == kLevelsBelowRun) {
        return;
    }
    for (const std::string& name : listing.directories) {
        if (!name.starts_with('.') && !contains(listing.links, name)) {
            add_steps(directory / name, depth + 1, steps);
        }
    }
}

/// What the files in a directory say of the last save in it; the rows of a table, too.
void add_trackers(const fs::path& directory, ordered_json& json, Cells& rows) {
    const formats::Listing listing = formats::try_list_directory(directory);
    for (const formats::LastSave& save : formats::last_saves(directory, listing)) {
        const fs::path path = directory / save.file;
        struct stat status {};
        if (::stat(path.c_str(), &status) == 0) {
            rows.push_back({save.iteration ? std::to_string(*save.iteration) : "-",
                            printable(path.string(), 1000)});
            json.push_back({{"directory", directory.string()},
                            {"file", save.file},
                            {"number", json_or_null(save.iteration)},
                            {"modified_ns", io::stamp_of(status, path.c_str()).modified_ns}});
        }
    }
}

}  // namespace

std::string steps_text(const fs::path& run, bool is_json) {
    const fs::path top = io::resolved(run);
    std::vector<StepPlace> steps;
    add_steps(top, 0, steps);
    std::ranges::stable_sort(steps, {},
                             [](const StepPlace& place) { return *place.first.iteration; });
    const auto own = formats::parse_step(top.filename().string());
    ordered_json json = {{"schema", kStepsSchema},
                         {"ok", true},
                         {"dir", run.string()},
                         {"directory", top.string()},
                         {"number", json_or_null(own ? own->iteration : std::nullopt)},
                         {"steps", ordered_json::array()},
                         {"trackers", ordered_json::array()}};
    std::set<fs::path> parents;
    Cells rows;
    for (const auto& [step, directory] : steps) {
        parents.insert(directory);
        rows.push_back({std::to_string(*step.iteration),
                        printable((directory / step.directory).string(), 1000)});
        json["steps"].push_back({{"number", *step.iteration},
                                 {"name", step.directory},
                                 {"directory", directory.string()},
                                 {"has_tracker", step.has_tracker}});
    }
    for (const fs::path& directory : parents) {
        add_trackers(directory, json["trackers"], rows);
    }
    return is_json ? json_text(json) : table({Align::right, Align::left}, rows);
}

}  // namespace shardweld::app
