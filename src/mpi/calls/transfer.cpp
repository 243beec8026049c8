#include "transfer.hpp"

#include <algorithm>
#include <new>
#include <numeric>

#include "core/lists.hpp"

#include "calls.hpp"

namespace shardweld::mpi {

namespace {

/// Runs `allocate` and agrees: a rank without memory must not leave the others waiting in the
/// transfer that follows.
template <typename F>
void allocate_together(MPI_Comm comm, const char* what, F&& allocate) {
    Index failed = 0;
    try {
        allocate();
    } catch (const std::bad_alloc&) {
        failed = 1;
    }
    reduce_in_place(comm, {&failed, 1}, MPI_MAX);
    if (failed != 0) {
        throw Error(ErrorCode::memory, std::string("a rank has no memory for ") + what,
                    "use fewer ranks per host or more memory");
    }
}

void broadcast_pieces(MPI_Comm comm, ByteSpan bytes, int root, Bytes piece) {
    for (std::size_t lo = 0; lo < bytes.size(); lo += piece) {
        const auto part = bytes.subspan(lo, std::min<std::size_t>(piece, bytes.size() - lo));
        check(MPI_Bcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, root, comm),
              "MPI_Bcast");
    }
}

std::vector<ByteBuffer> gather_in_one_call(MPI_Comm comm, ByteView mine,
                                           std::span<const Index> sizes) {
    std::vector<int> counts(sizes.size());
    std::vector<int> starts(sizes.size());
    std::transform(sizes.begin(), sizes.end(), counts.begin(),
                   [](Index size) { return static_cast<int>(size); });
    std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
    ByteBuffer together;
    std::vector<ByteBuffer> apart;
    allocate_together(comm, "gathered bytes", [&] {
        // One byte at least, so that the address is valid and differs from that of `mine`.
        together.resize(as_size(starts.back() + counts.back()) + 1);
        for (const int count : counts) {
            apart.emplace_back(as_size(count));
        }
    });
    check(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, together.data(),
                         counts.data(), starts.data(), MPI_BYTE, comm),
          "MPI_Allgatherv");
    for (const std::size_t rank : indices(apart)) {
        std::copy_n(together.begin() + starts[rank], counts[rank], apart[rank].begin());
    }
    return apart;
}

std::vector<ByteBuffer> gather_by_broadcasts(MPI_Comm comm, ByteView mine,
                                             std::span<const Index> sizes, Bytes piece) {
    std::vector<ByteBuffer> all;
    allocate_together(comm, "gathered bytes", [&] {
        for (const Index size : sizes) {
            all.emplace_back(as_size(size));
        }
    });
    std::copy(mine.begin(), mine.end(), all[as_size(rank_in_group(comm))].begin());
    for (int root = 0; as_size(root) < all.size(); ++root) {
        broadcast_pieces(comm, all[as_size(root)], root, piece);
    }
    return all;
}

}  // namespace

ByteBuffer broadcast(MPI_Comm comm, ByteBuffer bytes, int root, Bytes piece) {
    Index size = rank_in_group(comm) == root ? std::ssize(bytes) : 0;
    reduce_in_place(comm, {&size, 1}, MPI_MAX);
    allocate_together(comm, "broadcast bytes", [&] { bytes.resize(as_size(size)); });
    broadcast_pieces(comm, bytes, root, piece);
    return bytes;
}

std::vector<ByteBuffer> all_gather(MPI_Comm comm, ByteView mine, Bytes piece) {
    std::vector<Index> sizes(as_size(size_of_group(comm)));
    sizes[as_size(rank_in_group(comm))] = std::ssize(mine);
    reduce_in_place(comm, sizes, MPI_MAX);
    const Index total = std::accumulate(sizes.begin(), sizes.end(), Index{0});
    if (total <= static_cast<Index>(piece)) {
        return gather_in_one_call(comm, mine, sizes);
    }
    return gather_by_broadcasts(comm, mine, sizes, piece);
}

}  // namespace shardweld::mpi
