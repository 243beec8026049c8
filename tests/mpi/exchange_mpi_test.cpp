#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "mpi/calls/transfer.hpp"
#include "mpi/comm.hpp"

#include "world.hpp"

namespace shardweld::mpi {
namespace {

/// sizes[from][to], the same on all ranks.
using Sizes = std::vector<std::vector<std::size_t>>;

unsigned message_seed(int from, int to) {
    return seed_of(from) * 100 + seed_of(to) + 1;
}

/// Largest message between two different ranks.
std::size_t largest(const Sizes& sizes) {
    std::size_t result = 0;
    for (std::size_t from = 0; from < sizes.size(); ++from) {
        for (std::size_t to = 0; to < sizes.size(); ++to) {
            result = std::max(result, from == to ? 0 : sizes[from][to]);
        }
    }
    return result;
}

/// This rank's messages laid out in one buffer per side, in an order that is not that of the ranks,
/// with a guard byte after each message.
struct Exchange {
    explicit Exchange(const Sizes& wanted) : sizes(wanted), n(world().size()) {
        for (int i = 0; i < n; ++i) {
            const int peer = (2 * n - 1 - i + world().rank()) % n;
            append(out, out_starts, index_of(peer),
                   pattern(out_size(peer), message_seed(world().rank(), peer)));
            append(in, in_starts, index_of(peer),
                   std::vector<std::byte>(in_size(peer), std::byte{0xEE}));
        }
        for (int peer = 0; peer < n; ++peer) {
            to_send.push_back(std::span<const std::byte>(out).subspan(out_starts[index_of(peer)],
                                                                      out_size(peer)));
            to_receive.push_back(std::span(in).subspan(in_starts[index_of(peer)], in_size(peer)));
        }
    }

    [[nodiscard]] std::size_t out_size(int peer) const {
        return sizes[index_of(world().rank())][index_of(peer)];
    }
    [[nodiscard]] std::size_t in_size(int peer) const {
        return sizes[index_of(peer)][index_of(world().rank())];
    }

    void append(std::vector<std::byte>& buffer, std::vector<std::size_t>& starts, std::size_t peer,
                const std::vector<std::byte>& bytes) const {
        starts.resize(index_of(n));
        starts[peer] = buffer.size();
        buffer.insert(buffer.end(), bytes.begin(), bytes.end());
        buffer.push_back(std::byte{0xEE});
    }

    void expect_received() const {
        for (int peer = 0; peer < n; ++peer) {
            const auto got = to_receive[index_of(peer)];
            EXPECT_EQ(std::vector<std::byte>(got.begin(), got.end()),
                      pattern(in_size(peer), message_seed(peer, world().rank())))
                << "from rank " << peer;
            EXPECT_EQ(in[in_starts[index_of(peer)] + in_size(peer)], std::byte{0xEE});
        }
    }

    Sizes sizes;
    int n;
    std::vector<std::byte> out;
    std::vector<std::byte> in;
    std::vector<std::size_t> out_starts;
    std::vector<std::size_t> in_starts;
    std::vector<std::span<const std::byte>> to_send;
    std::vector<std::span<std::byte>> to_receive;
};

Sizes random_sizes(std::mt19937& random, std::size_t most) {
    Sizes sizes(index_of(world().size()), std::vector<std::size_t>(index_of(world().size())));
    for (auto& row : sizes) {
        for (auto& size : row) {
            // A third of the messages is empty.
            size = random() % 3 == 0 ? 0 : random() % (most + 1);
        }
    }
    return sizes;
}

Index steps_for(const Sizes& sizes, std::size_t limit) {
    return static_cast<Index>((largest(sizes) + limit - 1) / limit);
}

TEST(Exchange, delivers_random_sizes_in_the_announced_steps) {
    std::mt19937 random(20240501);  // the same numbers on all ranks
    for (const std::size_t limit : {1UL, 64UL, 1000UL, 1UL << 40}) {
        for (int round = 0; round < 6; ++round) {
            const Sizes sizes = random_sizes(random, limit == 1 ? 20 : 5000);
            Exchange exchange(sizes);
            const Index steps = world().exchange(exchange.to_send, exchange.to_receive, limit);
            EXPECT_EQ(steps, steps_for(sizes, std::min<std::size_t>(limit, 1UL << 28)))
                << "limit " << limit << ", round " << round;
            exchange.expect_received();
        }
    }
}

TEST(Exchange, delivers_by_either_route) {
    if (world().size() == 1) {
        GTEST_SKIP() << "no MPI with one serial rank";
    }
    std::mt19937 random(7);
    for (const Route route : {Route::collective, Route::pairwise, Route::automatic}) {
        const Sizes sizes = random_sizes(random, 3001);
        Exchange exchange(sizes);
        const Messages messages{exchange.to_send, exchange.to_receive};
        EXPECT_EQ(mpi::exchange(MPI_COMM_WORLD, messages, 64, route), steps_for(sizes, 64));
        exchange.expect_received();
    }
}

TEST(Exchange, delivers_large_messages_in_one_step) {
    const std::size_t size = 5'000'001;
    const Sizes sizes(index_of(world().size()),
                      std::vector<std::size_t>(index_of(world().size()), size));
    Exchange exchange(sizes);
    EXPECT_EQ(world().exchange(exchange.to_send, exchange.to_receive, size),
              world().size() > 1 ? 1 : 0);
    exchange.expect_received();
}

TEST(Exchange, copies_what_a_rank_sends_to_itself_without_a_step) {
    Sizes sizes(index_of(world().size()), std::vector<std::size_t>(index_of(world().size()), 0));
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
        sizes[rank][rank] = 1000 + rank;
    }
    Exchange exchange(sizes);
    EXPECT_EQ(world().exchange(exchange.to_send, exchange.to_receive, 64), 0);
    exchange.expect_received();
}

TEST(Exchange, does_nothing_without_messages) {
    const std::vector<std::span<const std::byte>> to_send(index_of(world().size()));
    const std::vector<std::span<std::byte>> to_receive(index_of(world().size()));
    EXPECT_EQ(world().exchange(to_send, to_receive, 64), 0);
}

TEST(Exchange, delivers_from_one_rank_that_receives_nothing) {
    // One side of every rank is unused.
    Sizes sizes(index_of(world().size()), std::vector<std::size_t>(index_of(world().size()), 0));
    for (std::size_t to = 1; to < sizes.size(); ++to) {
        sizes[0][to] = 64 * to + 1;
    }
    Exchange exchange(sizes);
    EXPECT_EQ(world().exchange(exchange.to_send, exchange.to_receive, 64), steps_for(sizes, 64));
    exchange.expect_received();
}

TEST(Exchange, takes_spans_farther_apart_than_an_int_reaches) {
    if (world().size() == 1) {
        GTEST_SKIP() << "no MPI with one serial rank";
    }
    // Only the pages that are written exist.
    const std::size_t reach = 3UL << 30;
    const std::unique_ptr<std::byte, decltype(&std::free)> far(
        static_cast<std::byte*>(std::malloc(reach)), &std::free);
    ASSERT_COLLECTIVE(far != nullptr);
    const auto n = index_of(world().size());
    const bool is_first = world().rank() == 0;
    std::vector<std::byte> out(n * 100, static_cast<std::byte>(world().rank() + 1));
    std::vector<std::span<const std::byte>> to_send(n);
    std::vector<std::span<std::byte>> to_receive(n);
    std::vector<std::byte> near(n * 100);
    for (std::size_t r = 0; r < n; ++r) {
        to_send[r] = std::span(out).subspan(r * 100, 100);
        // Only rank 0 has far spans; the others have to follow it to the other route.
        std::byte* place =
            is_first ? far.get() + r * ((reach - 100) / (n - 1)) : near.data() + r * 100;
        to_receive[r] = {place, 100};
    }
    EXPECT_EQ(world().exchange(to_send, to_receive, 64), 2);
    for (std::size_t r = 0; r < n; ++r) {
        EXPECT_EQ(
            std::count(to_receive[r].begin(), to_receive[r].end(), static_cast<std::byte>(r + 1)),
            100);
    }
}

TEST(Exchange, refuses_invalid_messages_on_all_ranks) {
    const auto n = index_of(world().size());
    const bool is_last = world().rank() == world().size() - 1;
    const std::vector<std::span<const std::byte>> to_send(is_last ? n + 1 : n);
    const std::vector<std::span<std::byte>> to_receive(n);
    try {
        world().exchange(to_send, to_receive, 64);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::internal);
        EXPECT_STREQ(error.what(),
                     is_last ? "exchange needs one message to send and one to receive per rank"
                             : "exchange: another rank's messages are invalid");
    }
}

TEST(Exchange, refuses_a_limit_of_nothing) {
    const auto n = index_of(world().size());
    const std::vector<std::span<const std::byte>> to_send(n);
    const std::vector<std::span<std::byte>> to_receive(n);
    EXPECT_THROW(world().exchange(to_send, to_receive, 0), Error);
}

}  // namespace
}  // namespace shardweld::mpi
