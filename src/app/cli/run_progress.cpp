#include "run_progress.hpp"

#include "shardweld/core/text.hpp"
#include "shardweld/core/usage.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::app {

namespace {

// Between two lines in a rank's own log.
constexpr double kNoteSeconds = 10;

Bytes share_of(const plan::Plan& plan, int rank) {
    const auto own = static_cast<std::size_t>(rank);
    return plan.cuts[own + 1] - plan.cuts[own];
}

}  // namespace

RunProgress::RunProgress(const std::string& phase, const plan::Plan& plan, int rank,
                         Progress& progress, Log& log)
    : progress_(progress),
      log_(log),
      own_share_(" of " + human_bytes(share_of(plan, rank))),
      noted_(wall_seconds()) {
    progress_.begin(phase, {static_cast<Index>(plan.placement.tensor_bytes),
                            static_cast<Index>(share_of(plan, rank))});
}

void RunProgress::update(Bytes done) {
    progress_.update(static_cast<Index>(done));
    if (wall_seconds() - noted_ >= kNoteSeconds) {
        noted_ = wall_seconds();
        log_.note("this rank's part: " + human_bytes(done) + own_share_);
    }
}

}  // namespace shardweld::app
