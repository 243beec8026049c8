#include "main_path.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "app/runtime/memory.hpp"
#include "app/runtime/stop.hpp"
#include "shardweld/error.hpp"

#include "bound_model.hpp"
#include "completed.hpp"
#include "moving.hpp"
#include "planned.hpp"
#include "preflight.hpp"
#include "publishing.hpp"
#include "sources.hpp"
#include "uploading.hpp"

namespace shardweld::app {

namespace {

/// Survey, bind and plan, by the ranks of the outputs' sessions.
Planned plan_here(const Outputs& outputs, const PlanRequest& request, Sources sources,
                  const Workers& workers, const BetweenSteps& between_steps) {
    Session session = outputs.front();
    between_steps(session.comm);
    survey_sources(session, request, sources);
    between_steps(session.comm);
    std::vector<BoundModel> models =
        bind_outputs(outputs, request.sink, sources,
                     choice_for(outputs, request, sources.input, workers.resources));
    between_steps(session.comm);
    Planned planned = plan_models(outputs, request, std::move(sources), std::move(models), workers);
    between_steps(session.comm);
    return planned;
}

/// Find, survey, bind and plan. Everything that is known to go wrong is said before the first byte
/// is written. `sources`: where they are found already.
Preparation prepare(const Outputs& outputs, const Stopping& stopping,
                    std::optional<Sources> sources) {
    Session session = outputs.front();
    const PlanRequest request = merge_request(session.job);
    Preparation ready;
    ready.sources = std::move(sources);
    Preflight preflight;
    check_before_reading(outputs, preflight, ready, true);
    const bool is_planned = ready.sources && preflight.check([&] {
        ready.planned = plan_outputs(outputs, request, *std::move(ready.sources),
                                     [&](mpi::Comm& ranks) { stopping.check(ranks); });
        report_plans(ready.planned);
    });
    if (is_planned) {
        check_planned(preflight, ready);
    }
    preflight.add(strict_problems(session));
    preflight.require_none();
    return ready;
}

/// Execute and publish. What was done before a failure is kept for the next run.
void write(Preparation& ready, const Stopping& stopping, Watchdog& watchdog) {
    Planned& planned = ready.planned;
    const mpi::WhyStop why_stop = [&] { return stopping.why(); };
    std::vector<Draft> drafts;
    for (Output& output : planned.outputs) {
        drafts.push_back({planned, output});
    }
    try {
        watchdog.enter("preparing the output");
        begin_drafts(drafts);
        watchdog.enter("moving tensors");
        write_tensors(planned, drafts, why_stop);
        watchdog.enter("publishing");
        complete_drafts(drafts, why_stop);
        publish_drafts(drafts);
    } catch (Error& error) {
        keep_for_later(drafts, error);
        throw;
    }
}

/// The steps in their order.
void find_to_publish(const Outputs& outputs, Completeness found, const Stopping& stopping,
                     Watchdog& watchdog) {
    Session session = outputs.front();
    Preparation ready;
    try {
        ready = prepare(outputs, stopping, std::move(found.sources));
    } catch (Error& error) {
        if (error.code() == ErrorCode::target && !found.why_not.empty()) {
            error.add_context("not known to be this merge's output: " + found.why_not);
        }
        throw;
    }
    say_plans(ready.planned);
    watchdog.enter("checking checksums");
    check_crcs(session, ready.planned, [&] { return stopping.why_before_writing(); });
    stopping.check(session.comm);
    write(ready, stopping, watchdog);
    say_summaries(ready.planned);
}

/// A rank that waits for its turn to read or write is no hanging rank, and stops when it is asked
/// to.
void keep_alive(const Session& session, const Stopping& stopping) {
    if (session.throttle) {
        session.throttle->stop_when([&] {
            session.comm.pulse().beat();
            return !stopping.why().empty();
        });
    }
}

}  // namespace

Planned plan_outputs(const Outputs& outputs, const PlanRequest& request, Sources sources,
                     const BetweenSteps& between_steps) {
    Session session = outputs.front();
    check_sums(session, sources);
    const Resources resources = shared_resources(session.comm);
    if (!plans_once_a_node(outputs, sources)) {
        return plan_here(outputs, request, std::move(sources), {resources, {}}, between_steps);
    }
    const auto plan = [&](const Outputs& planners, Sources theirs, const HostGroups& hosts) {
        return plan_here(planners, request, std::move(theirs), {resources, hosts}, between_steps);
    };
    Planned planned = planned_once_a_node(outputs, request, std::move(sources), resources, plan);
    between_steps(session.comm);
    return planned;
}

ErrorCode merge_model(Outputs outputs) {
    const Session session = outputs.front();
    const Job& job = session.job;
    const Stopping stopping(session.comm, job.run.stop_before, job.run.stop_at, job.run.stop,
                            session.log);
    keep_alive(session, stopping);
    const bool is_uploaded = uploads(job);
    {
        Watchdog watchdog(session.comm.pulse(),
                          {session.comm.rank(), session.comm.host(),
                           [&](const std::string& text) { session.log.note(text); },
                           job.run.stall_timeout > 0 ? RollCall::among(session.comm) : nullptr},
                          job.run.stall_timeout);
        watchdog.enter("checking the target, reading metadata and planning");
        outputs = without_published(outputs);
        Completeness found = look_at_outputs(outputs);
        session.run.is_left_alone = found.is_whole;
        if (!found.is_whole) {
            find_to_publish(outputs, std::move(found), stopping, watchdog);
        } else if (is_uploaded) {
            check_upload(session.comm, job, session.log);
        }
    }
    if (is_uploaded) {
        upload_directory(
            session.comm, job, job.outputs.front().directory, [&] { return stopping.why(); },
            session.log);
        session.watch.lap("upload");
    }
    return ErrorCode::ok;
}

}  // namespace shardweld::app
