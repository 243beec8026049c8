// What stands in the way of a merge, collected before the first byte is written, so that one run
// tells it all: the target, the room that it has, memory. `merge` and `plan` make the same checks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "core/system.hpp"
#include "mpi/comm.hpp"
#include "publish/assets.hpp"
#include "publish/room.hpp"
#include "publish/target.hpp"
#include "shardweld/error.hpp"

#include "planned.hpp"
#include "uploading.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// PATH; "" when it is not set or not listened to.
inline std::string search_path() {
    return variable("PATH").value_or("");
}

/// The directory of the session's output, and every directory that is read.
publish::TargetRequest target_request(const Session& session);

/// Local, one rank, before files are made in `directory`, for every command that writes: sets the
/// striping of --stripe. Error(unsupported) when it was asked for and cannot be done.
inline void stripe(const fs::path& directory, const Job& job) {
    if (job.run.striping) {
        publish::set_striping(directory, *job.run.striping, search_path());
    }
}

/// What is put on the file system, at most at one time.
struct Needs {
    Bytes bytes = 0;
    Index n_files = 0;      ///< with the directories they need
    bool is_least = false;  ///< it may be more

    static constexpr auto fields = [](auto& self) { return std::tie(self.bytes, self.n_files); };
};

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

/// What is known about a merge, and known to go wrong, before the first byte is written.
struct Preparation {
    std::optional<Sources> sources;  ///< nullopt: there is nothing to read
    bool has_least_room = true;      ///< no less than what file sizes tell
    Planned planned;
    std::vector<Needs> beside;  ///< the weights: of the first output, then of the others
};

/// Collective. What can be checked before the checkpoint's metadata are read: target, report,
/// upload, whether there is a checkpoint, its model's files, and room as far as sizes tell.
void check_before_reading(const Outputs& outputs, Preflight& preflight, Preparation& ready,
                          bool has_target);

/// Collective. Whether there is room and right for what is planned at the targets.
void check_target_place(Preflight& preflight, Preparation& ready);

/// Collective. The same, and whether the ranks that are here have the memory that it takes.
void check_planned(Preflight& preflight, Preparation& ready);

}  // namespace shardweld::app
