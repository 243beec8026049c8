// What stands in the way of a merge, collected before the first byte is written, so that one run
// tells it all: the target, the room that it has, memory. `merge` and `plan` make the same checks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/report/run.hpp"
#include "app/settings/job.hpp"
#include "core/process/system.hpp"
#include "publish/room.hpp"
#include "publish/target.hpp"
#include "shardweld/error.hpp"

#include "state.hpp"

namespace shardweld::app {

/// PATH; "" when it is not set or not listened to.
inline std::string search_path() {
    return variable("PATH").value_or("");
}

/// Every directory that is read.
std::vector<fs::path> input_directories(const Job& job);

/// Local, one rank, before files are made in `directory`, for every command that writes: sets the
/// striping of --stripe. Error(unsupported) when it was asked for and cannot be done.
inline void stripe(const fs::path& directory, const Job& job) {
    if (job.run.striping) {
        publish::set_striping(directory, *job.run.striping, search_path());
    }
}

/// Whose quotas are known, for people; empty where they are unknown.
std::string quotas_text(const std::vector<std::string>& quotas);

/// Errors that all ranks have agreed on, one for each check that failed.
class Preflight {
  public:
    /// Collective. Runs a check whose Error is the same on all ranks. Whether it passed;
    /// Error(stopped) is no problem and ends the checks.
    bool check(const std::function<void()>& body);

    /// Problems that were found elsewhere.
    void add(const std::vector<Error>& problems);

    /// Error as by all_of: "2 problems, nothing was written: ...".
    void require_none() const;

  private:
    std::vector<Error> problems_;
};

/// The only problem as it is; of several one Error with the code of the first that lists all under
/// their number and `title`. Requires one at least.
Error all_of(const std::vector<Error>& problems, const std::string& title);

/// Collective. What can be checked before anything is found: targets and reports, where there are
/// any, and an upload.
void check_targets(Preflight& preflight, const Run& run, const Merge& merge,
                   bool has_target = true);

/// Collective. What can be checked of what was found before its metadata are read: that no target
/// replaces it, and room as far as sizes tell. Whether there is no less room than that.
bool check_found(Preflight& preflight, const Run& run, Merge& merge);

/// Collective. Whether there is room and right for what is planned at the targets; `has_room`: no
/// less than what file sizes tell. Whether there is room.
bool check_target_place(Preflight& preflight, const Run& run, Merge& merge, bool has_room);

/// Collective. The same, and whether the ranks that are here have the memory that it takes.
void check_planned(Preflight& preflight, const Run& run, Merge& merge, bool has_room);

}  // namespace shardweld::app
