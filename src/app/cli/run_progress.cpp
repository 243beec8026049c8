#include "run_progress.hpp"

#include <unistd.h>

#include "shardweld/core/text.hpp"
#include "shardweld/core/usage.hpp"

namespace shardweld::app {

namespace {

// Between two lines in a rank's own log.
constexpr double kNoteSeconds = 10;

ProgressStyle style_of(const Log& log) {
    if (!log.shows(LogLevel::info)) {
        return ProgressStyle::silent;
    }
    return isatty(STDERR_FILENO) != 0 ? ProgressStyle::redrawn : ProgressStyle::lines;
}

Bytes share_of(const plan::Plan& plan, int rank) {
    const auto own = static_cast<std::size_t>(rank);
    return plan.cuts[own + 1] - plan.cuts[own];
}

}  // namespace

RunProgress::RunProgress(const plan::Plan& plan, int rank, Log& log)
    : log_(log),
      progress_(log.stream(), style_of(log),
                {plan.placement.tensor_bytes, share_of(plan, 0), plan.line.begins}, steady_clock()),
      own_share_(" of " + human_bytes(share_of(plan, rank))),
      noted_(wall_seconds()) {}

void RunProgress::update(Bytes done) {
    progress_.update(done);
    if (wall_seconds() - noted_ >= kNoteSeconds) {
        noted_ = wall_seconds();
        log_.note("this rank's part: " + human_bytes(done) + own_share_);
    }
}

}  // namespace shardweld::app
