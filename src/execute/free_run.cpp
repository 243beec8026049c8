#include "free_run.hpp"

namespace shardweld::execute {

void stop_if_asked(const std::function<std::string()>& why_stop) {
    if (!why_stop) {
        return;
    }
    if (const std::string why = why_stop(); !why.empty()) {
        throw Error(ErrorCode::stopped, why);
    }
}

void run_freely(mpi::Comm& comm, const std::function<std::string()>& why_stop,
                const std::function<bool()>& step) {
    std::optional<Error> failure = mpi::error_of([&] {
        while (!comm.alarm() && step()) {
            stop_if_asked(why_stop);
        }
    });
    if (failure) {
        comm.raise_alarm();
    }
    // A rank that has finished may be the only one that is told to stop.
    comm.end_of_free_run([&] {
        if (!failure) {
            failure = mpi::error_of([&] { stop_if_asked(why_stop); });
        }
        return failure.has_value();
    });
    mpi::collectively(comm, [&] {
        if (failure) {
            throw Error(*failure);
        }
    });
}

}  // namespace shardweld::execute
