#include "watch.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/delta/write_delta.hpp"
#include "app/merge/main_path.hpp"
#include "app/merge/uploading.hpp"
#include "app/report/session.hpp"
#include "app/runtime/stop.hpp"
#include "core/names.hpp"
#include "core/path.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "mpi/sleeping.hpp"
#include "shardweld/error.hpp"

#include "chain.hpp"
#include "polite.hpp"
#include "steward.hpp"

namespace shardweld::app {

namespace {

using watching::DeltaOrder;
using watching::Merged;
using watching::Order;
using watching::Steward;

/// What `merge` would be asked for the step.
Options merge_options(const Options& options, const Order& order) {
    Options merge = options;
    merge.command = Command::merge;
    merge.watch = {};
    merge.delta_dir.clear();  // the chain of steps says from which model it leads
    merge.local_dir = options.local_dir / order.source;
    merge.target_dir = options.target_dir / order.name;
    for (OutputRequest& also : merge.also) {
        also.directory /= order.name;
    }
    merge.revision = replaced(options.revision, "{n}", std::to_string(order.number));
    merge.uploads_complete = order.uploads_complete;
    merge.role = order.role.empty() ? options.role : order.role;
    merge.if_complete = IfComplete::skip;
    merge.overwrite = options.overwrite || order.replaces;
    return merge;
}

/// Whether the next step would end with this, too.
bool ends_watch(ErrorCode code) {
    return code == ErrorCode::stopped || code == ErrorCode::internal || code == ErrorCode::memory ||
           code == ErrorCode::launch;
}

/// Collective. Writes the delta of the step whose model is there, if it gets one. Its errors are no
/// errors of the step, but for those that end the watch.
void deliver(const Session& session, const Options& options, const Order& order,
             const mpi::WhyStop& why_stop, Merged& merged) {
    const DeltaOrder& asked = order.delta;
    if (!asked.is_asked || (asked.is_for_new && session.run.is_left_alone)) {
        return;
    }
    const fs::path previous =
        asked.previous.empty() ? options.delta_against : options.target_dir / asked.previous;
    try {
        merged.delta =
            write_delta(session.comm,
                        {previous, session.output.directory, options.delta_dir, asked.may_be_there},
                        {session.progress, session.throttle.get(), why_stop});
        say_delta(*merged.delta, session.log);
    } catch (const Error& error) {
        if (ends_watch(error.code())) {
            throw;
        }
        merged.delta_failure = error;
        if (error.code() == ErrorCode::not_found) {
            merged.delta_failure->set_hint(
                "without the model that the last version leads to, begin anew: give another "
                "--delta_dir, and the engines the whole model");
        }
    }
}

/// The step's name becomes one in OUT, and is told to commands: no link that somebody put there
/// leads its output elsewhere, and no shell finds anything in it.
void require_own_place(const Options& options, const Order& order) {
    if (!is_plain_name(order.name)) {
        throw Error(ErrorCode::unsupported,
                    printable(order.name) + " is no plain name: an output would get it, too",
                    "rename the step: letters, digits, \".\", \"_\" and \"-\"");
    }
    for (const OutputRequest& output : output_requests(options)) {
        if (fs::is_symlink(output.directory / order.name)) {
            throw Error(ErrorCode::target,
                        (output.directory / order.name).string() +
                            " is a link: the output would be where it leads",
                        "remove it");
        }
    }
}

/// Collective. Errors of the step are its own, but for those that end the watch.
Merged merge_step(mpi::Comm& comm, const Options& options, const Order& order, Log& log) {
    Merged merged;
    const double begin = wall_seconds();
    const Options merge = merge_options(options, order);
    const auto note = [&](const Session& session) {
        merged.was_complete = session.run.is_left_alone;
        for (const TensorEntry& tensor : session.report.tensors) {
            merged.bytes += tensor.bytes;
        }
        if (options.watch.is_polite && !merged.was_complete) {
            watching::leave_cache(session.output.directory);
        }
    };
    const auto body = [&](Outputs outputs) {
        return merge_model_and(std::move(outputs), [&](const Session& session, const auto& why) {
            deliver(session, options, order, why, merged);
        });
    };
    try {
        mpi::collectively(comm, [&] {
            if (comm.rank() == 0) {
                require_own_place(options, order);
            }
        });
        (void)run_reported(comm, merge, log, {"merge", body, note});
    } catch (const Error& error) {
        if (ends_watch(error.code())) {
            throw;
        }
        merged.failure = error;
    }
    merged.seconds = wall_seconds() - begin;
    return merged;
}

/// Collective. Error(stopped) on all ranks when one has a reason.
void stop_if_asked(mpi::Comm& comm, const Stopping& stopping) {
    mpi::collectively(comm, [&] {
        if (const std::string why = stopping.why(); !why.empty()) {
            throw Error(ErrorCode::stopped, why + ", between two steps",
                        "the same command goes on");
        }
    });
}

/// Collective. What to do next, once there is something; first what the last merge leaves to do.
Order next_order(mpi::Comm& comm, const Stopping& stopping, Steward* steward,
                 const std::optional<Merged>& last) {
    Order order;
    const auto is_asked = [&] { return !stopping.why().empty(); };
    mpi::while_others_sleep(
        comm,
        [&](const mpi::IsCalled& is_called) {
            if (last) {
                steward->finish(*last);
            }
            order = steward->next([&] { return is_called() || is_asked(); });
        },
        is_asked);
    stop_if_asked(comm, stopping);
    return mpi::share(comm, 0, [&] { return order; });
}

/// Collective. Until there is nothing more to do.
void merge_steps(mpi::Comm& comm, const Options& options, Steward* steward, Log& log) {
    const Stopping stopping(comm, options.stop_before, options.stop_at, options.stop, log);
    std::optional<Merged> last;
    while (true) {
        const Order order = next_order(comm, stopping, steward, last);
        if (order.is_end) {
            return;
        }
        last = merge_step(comm, options, order, log);
    }
}

}  // namespace

int watch(mpi::Comm& comm, const Options& options, Log& log) {
    if (options.watch.is_polite) {
        watching::be_polite();
    }
    if (uploads(options)) {
        check_upload(comm, options, log);
    }
    std::unique_ptr<Steward> steward;
    mpi::while_others_sleep(
        comm, [&](const mpi::IsCalled&) { steward = std::make_unique<Steward>(options, log); });
    try {
        merge_steps(comm, options, steward.get(), log);
    } catch (const Error& error) {
        if (steward) {
            steward->end(error.what(), error.code());
        }
        throw;
    }
    const std::string faults = mpi::share(comm, 0, [&] { return steward->faults(); });
    const ErrorCode code = faults.empty() ? ErrorCode::ok : ErrorCode::incomplete;
    if (steward) {
        steward->end(faults.empty() ? "done" : faults, code);
    }
    if (code != ErrorCode::ok) {
        throw Error(code, faults, "the messages above say why; the same command tries again");
    }
    return 0;
}

}  // namespace shardweld::app
