#include "sleeping.hpp"

#include <chrono>
#include <optional>
#include <thread>

namespace shardweld::mpi {

namespace {

constexpr auto kSleep = std::chrono::milliseconds(50);

}  // namespace

void while_others_sleep(Comm& comm, const std::function<void()>& work) {
    std::optional<Error> failure;
    if (comm.rank() == 0) {
        failure = error_of(work);
        comm.raise_alarm();
    }
    while (!comm.alarm()) {
        std::this_thread::sleep_for(kSleep);
    }
    comm.end_of_free_run();
    collectively(comm, [&] {
        if (failure) {
            throw Error(*failure);
        }
    });
}

}  // namespace shardweld::mpi
