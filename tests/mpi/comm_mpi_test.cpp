#include <unistd.h>

#include <gtest/gtest.h>

#include "mpi/calls/transfer.hpp"
#include "mpi/comm.hpp"

#include "world.hpp"

namespace shardweld::mpi {
namespace {

std::string host_of_this_machine() {
    char name[256] = {};
    EXPECT_EQ(gethostname(name, sizeof name - 1), 0);
    return name;
}

TEST(Comm, knows_its_ranks) {
    auto& comm = world();
    EXPECT_EQ(comm.all_sum(1), comm.size());
    EXPECT_EQ(comm.all_sum(comm.rank()), comm.size() * (comm.size() - 1) / 2);
    EXPECT_EQ(comm.all_max(comm.rank()), comm.size() - 1);
    EXPECT_EQ(comm.all_max(-comm.rank() - 5), -5);
    EXPECT_EQ(comm.all_sum(Index{1} << 40), (Index{1} << 40) * comm.size());
    EXPECT_EQ(comm.host(), host_of_this_machine());
}

TEST(Comm, splits_into_parts_that_do_not_meet) {
    const int rank = world().rank();
    const auto part = world().split(rank % 2);
    EXPECT_EQ(part->size(), (world().size() + 1 - rank % 2) / 2);
    EXPECT_EQ(part->rank(), rank / 2);
    EXPECT_EQ(part->world_rank(), rank);
    EXPECT_EQ(&part->pulse(), &world().pulse());
    Index sum = 0;
    for (int other = rank % 2; other < world().size(); other += 2) {
        sum += other;
    }
    EXPECT_EQ(part->all_sum(rank), sum);
}

TEST(Comm, names_ranks_of_a_part_as_the_whole_does) {
    const auto part = world().split(world().rank() == world().size() - 1 ? 0 : 1);
    std::string where;
    try {
        collectively(*part, [&] {
            if (part->rank() == part->size() - 1) {
                throw Error(ErrorCode::io, "no").add_context("file f");
            }
        });
    } catch (const Error& error) {
        where = error.context().back();
    }
    const bool is_alone = part->size() == 1;
    const int last = world().rank() == world().size() - 1 ? world().rank() : world().size() - 2;
    EXPECT_TRUE(where.starts_with(is_alone ? "file f" : "rank " + std::to_string(last))) << where;
}

TEST(Comm, broadcasts_from_every_root) {
    auto& comm = world();
    for (int root = 0; root < comm.size(); ++root) {
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{70001}}) {
            const auto wanted = pattern(size, seed_of(root) + 3);
            // What the other ranks pass in is dropped, longer or shorter.
            auto mine = comm.rank() == root ? wanted : pattern(100, 99);
            EXPECT_EQ(comm.broadcast(std::move(mine), root), wanted);
        }
    }
}

TEST(Comm, gathers_all_bytes_in_rank_order) {
    auto& comm = world();
    for (const std::size_t unit : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
        // Rank 0 always has nothing.
        const auto mine = pattern(unit * index_of(comm.rank()), seed_of(comm.rank()));
        const auto all = comm.all_gather(mine);
        ASSERT_COLLECTIVE(all.size() == static_cast<std::size_t>(comm.size()));
        for (int rank = 0; rank < comm.size(); ++rank) {
            EXPECT_EQ(all[index_of(rank)], pattern(unit * index_of(rank), seed_of(rank)));
        }
    }
}

TEST(Transfer, broadcasts_in_pieces) {
    if (world().size() == 1) {
        GTEST_SKIP() << "no MPI with one serial rank";
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{1001}}) {
        const auto wanted = pattern(size, 7);
        const auto mine = world().rank() == 1 ? wanted : std::vector<std::byte>();
        EXPECT_EQ(broadcast(MPI_COMM_WORLD, mine, 1, 64), wanted);
    }
}

TEST(Transfer, gathers_more_than_one_piece) {
    if (world().size() == 1) {
        GTEST_SKIP() << "no MPI with one serial rank";
    }
    const int size = world().size();
    const auto mine = pattern(100 * index_of(world().rank()) + 33, seed_of(world().rank()));
    for (const Bytes piece : {Bytes{7}, Bytes{64}, Bytes{100000}}) {
        const auto all = all_gather(MPI_COMM_WORLD, mine, piece);
        for (int rank = 0; rank < size; ++rank) {
            EXPECT_EQ(all.at(index_of(rank)), pattern(100 * index_of(rank) + 33, seed_of(rank)));
        }
    }
}

}  // namespace
}  // namespace shardweld::mpi
