#include "run_merge.hpp"

#include "app/report/reported.hpp"
#include "app/report/summary.hpp"
#include "app/runtime/memory.hpp"
#include "app/runtime/stop.hpp"
#include "app/runtime/watchdog.hpp"
#include "app/survey/input.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "publish/target.hpp"

#include "completed.hpp"
#include "moving.hpp"
#include "preflight.hpp"
#include "publishing.hpp"
#include "uploading.hpp"

namespace shardweld::app {

namespace {

/// What --if_complete found out.
struct Completeness {
    bool is_whole = false;           ///< every output is there
    std::string why_not;             ///< of the first output, "" if nothing lies there
    std::optional<Sources> sources;  ///< of the checkpoint, if it was looked for
};

/// Everything that is known to go wrong is said before the first byte is written.
Preparation prepare(const Outputs& outputs, const Stopping& stopping, Completeness found) {
    Session session = outputs.front();
    mpi::Comm& comm = session.comm;
    Preparation ready;
    ready.sources = std::move(found.sources);
    Preflight preflight;
    check_before_reading(outputs, preflight, ready, true, comm.size(), session.log);
    const bool is_planned = ready.sources && preflight.check([&] {
        ready.planned =
            plan_outputs(outputs, merge_request(session.options), *std::move(ready.sources),
                         [&](mpi::Comm& ranks) { stopping.check(ranks); });
        report_plan(ready.planned);
    });
    if (is_planned) {
        check_target_place(preflight, ready);
        preflight.check([&] { check_memory(comm, [&] { return ready.planned.forecast(comm); }); });
        preflight.check([&] { require_memory(comm, ready.planned.first().plan); });
    }
    preflight.add(strict_problems(session));
    try {
        preflight.require_none();
    } catch (Error& error) {
        if (error.code() == ErrorCode::target && !found.why_not.empty()) {
            error.add_context("not known to be this merge's output: " + found.why_not);
        }
        throw;
    }
    return ready;
}

void say_plan(const Session& session, const plan::Plan& plan) {
    session.log.info("writing " + human_bytes(plan.placement.tensor_bytes) + ": " +
                     counted(plan.targets.size(), "tensor") + " in " +
                     counted(plan.placement.files.size(), "file") + " by " +
                     counted(static_cast<std::size_t>(session.comm.size()), "rank") + ", " +
                     std::string(plan::name_of(plan.strategy)) + " (" + plan.why + ")");
}

/// What was made, in place of a line for each part.
void say_summary(const Output& output) {
    const Session& session = output.session;
    const Options& options = session.options;
    const std::vector<std::string> classes = output.model.prepared.config.architectures();
    const Finished finished{
        options.target_dir, options.report.value_or(""), classes.empty() ? "" : classes.front(),
        text_of(session.report.crc.value_or(execute::RecordCounts()), options.check_crc),
        output.plan.placement.format->name() == outputs::default_format().name()};
    if (options.progress == ProgressStyle::json && session.log.is_speaker()) {
        session.log.write_object(summary_json(session.report, session.watch.phases(), finished));
    } else {
        session.log.info(summary_text(session.report, session.watch.phases(), finished));
    }
}

/// Who asks for a type knows what it takes.
void say_dtype(const Output& output) {
    const Session& session = output.session;
    const bool is_told = session.log.is_speaker() && !session.options.dtype;
    const std::string note = is_told ? output.dtype_note() : "";
    if (!note.empty()) {
        session.log.info(note);
    }
}

/// How near to the roof the merge came; where one is known, on rank 0.
void report_speed(const Output& output, const std::optional<MeasuredRoof>& roof) {
    const Session& session = output.session;
    if (roof) {
        session.report.roof = compare_with_roof(*roof, session.watch.phases(), output.plan);
        session.log.info(text_of(*session.report.roof));
    }
}

/// Without the outputs behind the first that an earlier run, which did not get to the first one,
/// has made appear.
Outputs without_published(const Outputs& outputs) {
    const Options& first = outputs.front().options;
    const auto is_there = mpi::share(outputs.front().comm, 0, [&] {
        std::vector<int> there;
        for (const Session& one : outputs) {
            there.push_back(&one != &outputs.front() && !first.restart &&
                            publish::was_published(one.options.target_dir, first.target_dir));
        }
        return there;
    });
    Outputs left;
    for (std::size_t at = 0; at < outputs.size(); ++at) {
        if (is_there[at] == 0) {
            left.push_back(outputs[at]);
        } else {
            outputs[at].log.info(outputs[at].options.target_dir.string() +
                                 " is complete: an earlier run was stopped behind it");
        }
    }
    return left;
}

/// Looks at what lies at the targets. Other outputs that are complete are left out, as is all work
/// where every one is.
Completeness look_at_outputs(Outputs& outputs) {
    Session session = outputs.front();
    Completeness found;
    if (session.options.if_complete == IfComplete::error ||
        !holds_anything(session.comm, session.options.target_dir)) {
        return found;
    }
    found.sources.emplace(find_sources(session, merge_request(session.options)));
    Outputs left{session};
    for (std::size_t at = 1; at < outputs.size(); ++at) {
        if (!why_not_complete(outputs[at], *found.sources).empty()) {
            left.push_back(outputs[at]);
        }
    }
    found.why_not = why_not_complete(session, *found.sources);
    found.is_whole = found.why_not.empty() && left.size() == 1;
    outputs.swap(left);
    session.report.is_left_alone = found.is_whole;
    if (found.is_whole) {
        session.log.info(session.options.target_dir.string() + " is complete: " +
                         (session.options.if_complete == IfComplete::verify
                              ? "every tensor is what the report says"
                              : "files and sizes are what the report says"));
    }
    return found;
}

upload::Access upload_access(Session& session) {
    return session.options.upload_path.empty() ? upload::Access()
                                               : prepare_upload(session.comm, session.options);
}

/// From planning to publishing.
upload::Access merge_all(const Outputs& outputs, Completeness found, const Stopping& stopping,
                         Watchdog& watchdog) {
    Preparation ready = prepare(outputs, stopping, std::move(found));
    Planned& planned = ready.planned;
    Session session = outputs.front();
    for (const Output& output : planned.outputs) {
        say_plan(output.session, output.plan);
    }
    say_dtype(planned.first());
    watchdog.enter("checking checksums");
    check_crcs(session, planned, [&] { return stopping.why_before_writing(); });
    stopping.check(session.comm);
    write_and_publish(planned, stopping, watchdog);
    for (const Output& output : planned.outputs) {
        say_summary(output);
    }
    report_speed(planned.first(), ready.roof);
    return std::move(ready.access);
}

}  // namespace

void merge_model(Outputs outputs) {
    Session session = outputs.front();
    const Options& options = session.options;
    const Stopping stopping(session.comm, options.stop_before, options.stop_at, options.stop,
                            session.log);
    if (session.throttle) {
        // Who waits for its turn stands not still, and stops in time.
        session.throttle->stop_when([&] {
            session.comm.pulse().beat();
            return !stopping.why().empty();
        });
    }
    upload::Access access;
    {
        Watchdog watchdog(session.comm.pulse(),
                          {session.comm.rank(), session.comm.host(),
                           [&](const std::string& text) { session.log.note(text); }},
                          options.stall_timeout);
        watchdog.enter("checking the target, reading metadata and planning");
        outputs = without_published(outputs);
        Completeness found = look_at_outputs(outputs);
        access = found.is_whole ? upload_access(session)
                                : merge_all(outputs, std::move(found), stopping, watchdog);
    }
    if (!options.upload_path.empty()) {
        upload_directory(session.comm, options, options.target_dir, access, session.log);
        session.watch.lap("upload");
    }
}

}  // namespace shardweld::app
