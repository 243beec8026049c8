#include "sleeping.hpp"

#include <chrono>
#include <optional>
#include <thread>

namespace shardweld::mpi {

namespace {

constexpr auto kSleep = std::chrono::milliseconds(50);

}  // namespace

void while_others_sleep(Comm& comm, const std::function<void(const IsCalled&)>& work,
                        const std::function<bool()>& wants_end) {
    std::optional<Error> failure;
    if (comm.rank() == 0) {
        failure = error_of([&] { work([&] { return comm.alarm(); }); });
        comm.raise_alarm();
    }
    while (!comm.alarm()) {
        std::this_thread::sleep_for(kSleep);
        if (wants_end && wants_end()) {
            comm.raise_alarm();
            break;
        }
    }
    comm.end_of_free_run();
    collectively(comm, [&] {
        if (failure) {
            throw Error(*failure);
        }
    });
}

}  // namespace shardweld::mpi
