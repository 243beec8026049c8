// What stands in the way of a merge, collected before the first byte is written, so that one run
// tells it all. `merge` and `plan` make the same checks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/report/roof.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"
#include "upload/upload.hpp"

#include "planned.hpp"
#include "target.hpp"

namespace shardweld::app {

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
    std::vector<FilesBeside> beside;   ///< of the first output, then of the others
    std::optional<MeasuredRoof> roof;  ///< on the first rank
    upload::Access access;             ///< the same
};

/// Collective. What can be checked before the checkpoint's metadata are read: target, report, roof,
/// upload, whether there is a checkpoint, its model's files, and room as far as sizes tell.
/// `log` is told of doubts about the roof. `has_target`: there will be one.
void check_before_reading(const Outputs& outputs, Preflight& preflight, Preparation& ready,
                          bool has_target, int n_ranks, Log& log);

/// Collective. Whether there is room and right for what is planned at the targets.
void check_target_place(Preflight& preflight, Preparation& ready);

/// Collective. The same, and whether the ranks that are here have the memory that it takes.
void check_planned(Preflight& preflight, Preparation& ready);

}  // namespace shardweld::app
