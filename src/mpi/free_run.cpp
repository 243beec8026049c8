#include "free_run.hpp"

#include "core/error_of.hpp"

namespace shardweld::mpi {

namespace {

/// Ends the work of a rank in a phase that is over for all: no error of its own.
struct IsOver {};

void rethrow(Comm& comm, const std::optional<Error>& failure) {
    collectively(comm, [&] {
        if (failure) {
            throw Error(*failure);
        }
    });
}

}  // namespace

void stop_if_asked(const WhyStop& why_stop) {
    if (!why_stop) {
        return;
    }
    if (const std::string why = why_stop(); !why.empty()) {
        throw Error(ErrorCode::stopped, why);
    }
}

void run_freely(Comm& comm, const WhyStop& why_stop,
                const std::function<void(const OnStep&)>& work) {
    const OnStep on_step = [&] {
        if (comm.alarm()) {
            throw IsOver();
        }
        stop_if_asked(why_stop);
    };
    std::optional<Error> failure = error_of([&] {
        try {
            work(on_step);
        } catch (const IsOver&) {
            return;
        }
    });
    if (failure) {
        comm.raise_alarm();
    }
    // A rank that has finished may be the only one that is told to stop.
    comm.end_of_free_run([&] {
        if (!failure) {
            failure = error_of([&] { stop_if_asked(why_stop); });
        }
        return failure.has_value();
    });
    rethrow(comm, failure);
}

void collectively_in_steps(Comm& comm, const std::function<void(const OnStep&)>& work) {
    const std::optional<Error> failure = error_of([&] { work([&] { (void)comm.alarm(); }); });
    comm.end_of_free_run();
    rethrow(comm, failure);
}

}  // namespace shardweld::mpi
