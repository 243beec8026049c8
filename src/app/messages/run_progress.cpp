#include "run_progress.hpp"

#include <utility>

#include "core/text.hpp"
#include "core/usage.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

namespace {

// Between two lines in a rank's own log.
constexpr double kNoteSeconds = 10;

}  // namespace

std::function<void(Bytes)> moving_shown(std::string phase, const plan::Plan& plan, int rank,
                                        Progress& progress, Log& log) {
    const auto at = static_cast<std::size_t>(rank);
    const Bytes own = plan.cuts[at + 1] - plan.cuts[at];
    const Bytes total = plan.placement.tensor_bytes;
    return [show = shown(progress, std::move(phase)), own, total, &log,
            noted = wall_seconds()](Bytes done) mutable {
        show(static_cast<Index>(done), static_cast<Index>(own), static_cast<Index>(total));
        if (wall_seconds() - noted >= kNoteSeconds) {
            noted = wall_seconds();
            log.note("this rank's part: " + human_bytes(done) + " of " + human_bytes(own));
        }
    };
}

}  // namespace shardweld::app
