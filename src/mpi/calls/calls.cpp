#include "calls.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace shardweld::mpi {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Whoever arrives within it is not slept for.
constexpr auto kAwake = 50us;
/// A nap is this share of the time that was waited: a rank is late by no more.
constexpr int kNapShare = 8;
constexpr auto kMostAsleep = 1ms;
/// From one nap to the next: Open MPI takes one step of a collective in a look, and one message
/// takes several; some of what it does is done in every eighth only.
constexpr int kLooks = 8;

}  // namespace

void sleep_until(const std::function<bool()>& is_over) {
    const auto begin = Clock::now();
    for (unsigned looks = 1; !is_over(); ++looks) {
        if (const auto waited = Clock::now() - begin; looks % kLooks == 0 && waited > kAwake) {
            std::this_thread::sleep_for(std::min<Clock::duration>(waited / kNapShare, kMostAsleep));
        }
    }
}

void reduce_in_place(MPI_Comm comm, std::span<Index> values, MPI_Op op) {
    MPI_Request request = MPI_REQUEST_NULL;
    // NOLINTNEXTLINE(mpi-type-mismatch): Index is std::int64_t
    check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T,
                         op, comm, &request),
          "MPI_Iallreduce");
    sleep_until([&] {
        int is_over = 0;
        check(MPI_Test(&request, &is_over, MPI_STATUS_IGNORE), "MPI_Test");
        return is_over != 0;
    });
}

}  // namespace shardweld::mpi
