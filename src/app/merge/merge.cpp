#include "merge.hpp"

#include <string>

#include "app/runtime/memory.hpp"
#include "app/runtime/stop.hpp"

#include "bound_model.hpp"
#include "completed.hpp"
#include "move_tensors.hpp"
#include "node_planning.hpp"
#include "plan_outputs.hpp"
#include "preflight.hpp"
#include "publishing.hpp"
#include "sources.hpp"
#include "uploading.hpp"

namespace shardweld::app {

namespace {

/// Find, read, bind and plan. Everything that is known to go wrong is said before the first byte is
/// written. Whether there is anything to write: not where --if_complete finds it.
bool prepare(const Run& run, Merge& merge, const Stopping& stopping) {
    leave_published(run, merge);
    const bool is_there = run.job.run.if_complete != IfComplete::error && has_target(run, merge);
    Preflight preflight;
    if (!is_there) {
        check_targets(preflight, run, merge);
    }
    const bool is_found = preflight.check([&] { find_inputs(run, merge); });
    std::string why_not;
    if (is_there) {
        preflight.require_none();
        why_not = look_at_outputs(run, merge);
        if (run.report->is_left_alone) {
            return false;
        }
        check_targets(preflight, run, merge);
    }
    try {
        const bool has_room = is_found && check_found(preflight, run, merge);
        const bool is_planned = is_found && preflight.check([&] {
            plan_found(run, merge, [&](mpi::Comm& ranks) { stopping.check(ranks); });
            report_plans(run, merge);
        });
        if (is_planned) {
            check_planned(preflight, run, merge, has_room);
        }
        preflight.add(strict_problems(run, run.report->outputs.front()));
        preflight.require_none();
    } catch (Error& error) {
        if (error.code() == ErrorCode::target && !why_not.empty()) {
            error.add_context("not known to be this merge's output: " + why_not);
        }
        throw;
    }
    return true;
}

/// Stage, move and publish. What was done before a failure is kept for the next run.
void write(const Run& run, Merge& merge, const Stopping& stopping, Watchdog& watchdog) {
    const mpi::WhyStop why_stop = [&] { return stopping.why(); };
    try {
        watchdog.enter("preparing the output");
        stage_outputs(run, merge);
        watchdog.enter("moving tensors");
        write_tensors(run, merge, why_stop);
        watchdog.enter("publishing");
        complete_outputs(run, merge, why_stop);
        publish_outputs(run, merge);
    } catch (Error& error) {
        keep_for_later(run, merge, error);
        throw;
    }
}

/// A rank that waits for its turn to read or write is no hanging rank, and stops when it is asked
/// to.
void keep_alive(const Run& run, const Stopping& stopping) {
    if (run.throttle) {
        run.throttle->stop_when([&] {
            run.comm.pulse().beat();
            return !stopping.why().empty();
        });
    }
}

}  // namespace

void plan_found(const Run& run, Merge& merge, const BetweenSteps& between_steps) {
    check_sums(run, merge);
    merge.here = shared_resources(run.comm);
    NodePlanning(run, merge).plan([&](const Run& planners) {
        between_steps(planners.comm);
        read_inputs(planners, merge);
        between_steps(planners.comm);
        bind_outputs(planners, merge);
        between_steps(planners.comm);
        plan_outputs(planners, merge);
    });
    merge.inputs.clear();
    between_steps(run.comm);
}

ErrorCode merge_model(const Run& run) {
    const Job& job = run.job;
    const Stopping stopping(run.comm, job.run.stop_before, job.run.stop_at, job.run.stop, run.log);
    keep_alive(run, stopping);
    {
        Watchdog watchdog(
            run.comm.pulse(), run.comm.rank(), run.comm.host(), job.run.stall_timeout,
            [&](const std::string& text) { run.log.write_own(text); },
            job.run.stall_timeout > 0 ? RollCall::among(run.comm) : nullptr);
        watchdog.enter("checking the target, reading metadata and planning");
        Merge merge = begin_merge(run);
        if (prepare(run, merge, stopping)) {
            say_plans(run, merge);
            watchdog.enter("checking checksums");
            check_crcs(run, merge, [&] { return stopping.why_before_writing(); });
            stopping.check(run.comm);
            write(run, merge, stopping, watchdog);
            say_summaries(run);
        } else if (uploads(job)) {
            check_upload(run.comm, job, run.log);
        }
    }
    if (uploads(job)) {
        upload_directory(
            run.comm, job, job.outputs.front().directory, [&] { return stopping.why(); }, run.log);
        run.watch->lap("upload");
    }
    return ErrorCode::ok;
}

}  // namespace shardweld::app
