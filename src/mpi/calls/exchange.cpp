#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/lists.hpp"

#include "calls.hpp"
#include "transfer.hpp"

namespace shardweld::mpi {

namespace {

/// Bytes [lo, lo + limit) of a message, as far as it reaches.
template <typename Byte>
std::span<Byte> part_of(std::span<Byte> message, std::size_t lo, std::size_t limit) {
    lo = std::min(lo, message.size());
    return message.subspan(lo, std::min(limit, message.size() - lo));
}

std::uintptr_t address_of(const std::byte* where) {
    return reinterpret_cast<std::uintptr_t>(where);
}

/// Whether an int tells how far the other ranks' messages reach from the lowest address of them.
template <typename Spans>
bool reach_fits_int(const Spans& spans, int rank) {
    std::uintptr_t lo = std::numeric_limits<std::uintptr_t>::max();
    std::uintptr_t hi = 0;
    for (const std::size_t r : indices(spans)) {
        if (r != as_size(rank) && !spans[r].empty()) {
            lo = std::min(lo, address_of(spans[r].data()));
            hi = std::max(hi, address_of(spans[r].data()) + spans[r].size());
        }
    }
    return hi <= lo || hi - lo <= static_cast<std::uintptr_t>(std::numeric_limits<int>::max());
}

/// One side of MPI_Alltoallv: counts and displacements of a step relative to one base address.
template <typename Byte>
class AlltoallvSide {
  public:
    AlltoallvSide(std::span<const std::span<Byte>> spans, int rank, Byte* unused)
        : spans_(spans),
          rank_(as_size(rank)),
          base_(unused),
          counts_(spans.size()),
          starts_(spans.size()) {
        for (const std::size_t r : indices(spans)) {
            if (r != rank_ && !spans[r].empty() && (base_ == unused || spans[r].data() < base_)) {
                base_ = spans[r].data();
            }
        }
    }

    void move_to(std::size_t lo, std::size_t limit) {
        for (const std::size_t r : indices(spans_)) {
            const auto part = r == rank_ ? std::span<Byte>() : part_of(spans_[r], lo, limit);
            counts_[r] = static_cast<int>(part.size());
            starts_[r] =
                part.empty() ? 0 : static_cast<int>(address_of(part.data()) - address_of(base_));
        }
    }

    [[nodiscard]] Byte* base() const { return base_; }
    [[nodiscard]] const int* counts() const { return counts_.data(); }
    [[nodiscard]] const int* starts() const { return starts_.data(); }

  private:
    std::span<const std::span<Byte>> spans_;
    std::size_t rank_;
    Byte* base_;
    std::vector<int> counts_;
    std::vector<int> starts_;
};

void exchange_collectively(MPI_Comm comm, const Messages& messages, std::size_t limit,
                           Index steps) {
    // A side without bytes still needs an address, and never the other side's: Open MPI takes equal
    // addresses for MPI_IN_PLACE and hangs.
    std::array<std::byte, 2> unused{};
    const int rank = rank_in_group(comm);
    AlltoallvSide<const std::byte> out(messages.to_send, rank, &unused[0]);
    AlltoallvSide<std::byte> in(messages.to_receive, rank, &unused[1]);
    for (Index step = 0; step < steps; ++step) {
        const std::size_t lo = as_size(step) * limit;
        out.move_to(lo, limit);
        in.move_to(lo, limit);
        check(MPI_Alltoallv(out.base(), out.counts(), out.starts(), MPI_BYTE, in.base(),
                            in.counts(), in.starts(), MPI_BYTE, comm),
              "MPI_Alltoallv");
    }
}

constexpr int kExchangeTag = 1;

void exchange_pairwise(MPI_Comm comm, const Messages& messages, std::size_t limit, Index steps) {
    const int rank = rank_in_group(comm);
    const int size = size_of_group(comm);
    std::vector<MPI_Request> requests;
    requests.reserve(2 * as_size(size));
    for (Index step = 0; step < steps; ++step) {
        const std::size_t lo = as_size(step) * limit;
        requests.clear();
        for (int distance = 1; distance < size; ++distance) {
            const int from = (rank + size - distance) % size;
            const auto part = part_of(messages.to_receive[as_size(from)], lo, limit);
            if (!part.empty()) {
                check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from,
                                kExchangeTag, comm, &requests.emplace_back()),
                      "MPI_Irecv");
            }
        }
        for (int distance = 1; distance < size; ++distance) {
            const int to = (rank + distance) % size;
            const auto part = part_of(messages.to_send[as_size(to)], lo, limit);
            if (!part.empty()) {
                check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to,
                                kExchangeTag, comm, &requests.emplace_back()),
                      "MPI_Isend");
            }
        }
        check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
              "MPI_Waitall");
    }
}

/// Bytes of the largest message to or from another rank.
std::size_t largest_of(const Messages& messages, int rank) {
    std::size_t largest = 0;
    for (const std::size_t r : indices(messages.to_send)) {
        if (r != as_size(rank)) {
            largest =
                std::max({largest, messages.to_send[r].size(), messages.to_receive[r].size()});
        }
    }
    return largest;
}

}  // namespace

Index exchange(MPI_Comm comm, const Messages& messages, Bytes limit, Route route) {
    const int rank = rank_in_group(comm);
    const char* fault = fault_of(messages, limit, rank, size_of_group(comm));
    const std::size_t step_bytes = std::clamp<Bytes>(limit, 1, kPieceBytes);
    // What all ranks must do alike is agreed first: the steps, the route, and whether to go at all.
    std::array<Index, 3> agreed{0, 0, fault != nullptr};
    if (fault == nullptr) {
        agreed[0] = static_cast<Index>((largest_of(messages, rank) + step_bytes - 1) / step_bytes);
        agreed[1] =
            !reach_fits_int(messages.to_send, rank) || !reach_fits_int(messages.to_receive, rank);
    }
    reduce_in_place(comm, agreed, MPI_MAX);
    const auto [steps, far, invalid] = agreed;
    if (invalid != 0) {
        throw Error(ErrorCode::internal,
                    fault != nullptr ? fault : "exchange: another rank's messages are invalid");
    }
    copy_own(messages, rank);
    if (route == Route::pairwise || (route == Route::automatic && far != 0)) {
        exchange_pairwise(comm, messages, step_bytes, steps);
    } else {
        exchange_collectively(comm, messages, step_bytes, steps);
    }
    return steps;
}

}  // namespace shardweld::mpi
