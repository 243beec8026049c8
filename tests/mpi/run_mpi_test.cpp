// Plans executed with real files at every number of ranks, against elements computed one by one.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>

#include <sys/stat.h>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "core/text.hpp"
#include "execute/run.hpp"
#include "mpi/comm.hpp"
#include "plan/bind/quantise.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/traffic.hpp"

#include "sample.hpp"
#include "world.hpp"

namespace shardweld {
namespace {

namespace fs = std::filesystem;
using test::fill;
using test::kWays;
using test::Sample;

TEST(Run, gives_the_same_bytes_with_any_strategy_and_message_size) {
    mpi::Comm& comm = mpi::world();
    Sample sample(comm);
    fill(sample);
    for (const Bytes shard_size : {Bytes{5'000'000'000}, Bytes{20'000}}) {
        for (const auto& [strategy, is_ahead] : kWays) {
            for (const Bytes message : {Bytes{0}, Bytes{4096}}) {
                plan::JobPlan choice;
                choice.strategy = strategy;
                choice.read_ahead = is_ahead;
                choice.max_shard_size = shard_size;
                choice.message_limit = message;
                choice.memory_limit = Bytes{1} << 20U;
                const auto visibility =
                    plan::Visibility::everywhere(comm.size(), sample.files().size());
                const plan::Plan plan =
                    plan::make_plan(sample.targets(), sample.files(), visibility, choice);
                EXPECT_EQ(plan.limits.ahead > 0, is_ahead);
                execute::Result result;
                const std::string bytes = sample.merge(plan, result);
                EXPECT_TRUE(bytes == sample.expected(plan));
                Bytes sent = 0;
                Bytes read = 0;
                Bytes written = 0;
                for (const execute::RankResult& rank : result.ranks) {
                    sent += rank.bytes_sent;
                    read += rank.bytes_read;
                    written += rank.bytes_written;
                }
                EXPECT_EQ(result.ranks.size(), static_cast<std::size_t>(comm.size()));
                EXPECT_EQ(written, plan.placement.tensor_bytes);
                EXPECT_GE(read, plan.placement.tensor_bytes);
                EXPECT_EQ(sent > 0, strategy == plan::Strategy::collective && comm.size() > 1);
                EXPECT_GT(result.ranks[0].rounds, 1);
                EXPECT_TRUE(result.differences.empty());
            }
        }
    }
}

using ChangeOperands = std::function<void(std::vector<plan::Operand>&)>;

/// The sample, a tensor without elements and a literal one, by a plan in which large_d was changed.
void merge_changed(Sample& sample, const test::Way& way, const ChangeOperands& change) {
    plan::JobPlan choice;
    choice.strategy = way.strategy;
    choice.read_ahead = way.is_ahead;
    auto targets = sample.targets();
    plan::Target& empty = targets.emplace_back(targets.front());
    empty.name = "empty_f";
    empty.shape = {0, 7};
    empty.operands.clear();
    const std::array<std::byte, 4> literal{};
    targets.push_back(plan::literal_target("literal_g", DType::f32, 1, literal));
    plan::Plan plan = plan::make_plan(
        std::move(targets), sample.files(),
        plan::Visibility::everywhere(mpi::world().size(), sample.files().size()), choice);
    std::ranges::find(plan.targets, "large_d", &plan::Target::name)->operands.change(change);
    execute::Result result;
    (void)sample.merge(plan, result);
}

TEST(Run, ends_on_all_ranks_where_the_plan_leaves_elements_unfilled) {
    Sample sample(mpi::world());
    fill(sample);
    const std::vector<ChangeOperands> faults{
        [](auto& operands) { operands.clear(); }, [](auto& operands) { operands.pop_back(); },
        [](auto& operands) { operands.push_back(operands.front()); }};
    for (const test::Way& way : kWays) {
        EXPECT_NO_THROW(merge_changed(sample, way, [](auto&) {}));
        for (const ChangeOperands& fault : faults) {
            try {
                merge_changed(sample, way, fault);
                ADD_FAILURE() << "bytes were written that nobody filled";
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::internal);
                EXPECT_NE(std::string(error.what()).find("tensor large_d"), std::string::npos);
            }
        }
    }
}

TEST(Run, reads_and_sends_what_the_traffic_of_the_plan_says) {
    mpi::Comm& comm = mpi::world();
    Sample sample(comm);
    sample.add("columns_a", 3000, 1024, 1, 4, false);
    sample.add("rows_b", 3000, 1024, 0, 4, false);
    sample.add("one_c", 1, 1, 0, 1, false);
    sample.write_files();
    for (const plan::Strategy strategy : {plan::Strategy::direct, plan::Strategy::collective}) {
        plan::JobPlan choice;
        choice.strategy = strategy;
        const plan::Plan plan = plan::make_plan(
            sample.targets(), sample.files(),
            plan::Visibility::everywhere(comm.size(), sample.files().size()), choice);
        const plan::Traffic traffic = plan::traffic_of(plan);
        execute::Result result;
        (void)sample.merge(plan, result);
        for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
            EXPECT_EQ(result.ranks[rank].bytes_read, traffic.ranks[rank].bytes_read) << rank;
            EXPECT_EQ(result.ranks[rank].bytes_sent, traffic.ranks[rank].bytes_sent) << rank;
            EXPECT_EQ(result.ranks[rank].bytes_written, traffic.ranks[rank].bytes_written) << rank;
        }
    }
}

TEST(Run, reads_about_the_gaps_that_the_traffic_of_the_plan_says) {
    mpi::Comm& comm = mpi::world();
    Sample sample(comm);
    sample.add("transposed_a", 3000, 1024, 0, 2, true);
    sample.write_files();
    for (const plan::Strategy strategy : {plan::Strategy::direct, plan::Strategy::collective}) {
        plan::JobPlan choice;
        choice.strategy = strategy;
        choice.memory_limit = Bytes{4} << 20U;
        const plan::Plan plan = plan::make_plan(
            sample.targets(), sample.files(),
            plan::Visibility::everywhere(comm.size(), sample.files().size()), choice);
        const plan::Traffic traffic = plan::traffic_of(plan);
        execute::Result result;
        (void)sample.merge(plan, result);
        double read = 0;
        for (const execute::RankResult& rank : result.ranks) {
            read += static_cast<double>(rank.bytes_read);
        }
        const double expected =
            plan::spread_of(traffic.ranks, &plan::RankTraffic::bytes_read).total;
        EXPECT_GT(expected, 6'144'000);
        EXPECT_GT(read, 0.5 * expected) << plan::name_of(strategy);
        EXPECT_LT(read, 2.0 * expected) << plan::name_of(strategy);
    }
}

std::string hex_of(const void* bytes, std::size_t size, std::string* raw) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    std::string text;
    for (const unsigned char byte : canonical.digest) {
        text += "0123456789abcdef"[byte / 16];
        text += "0123456789abcdef"[byte % 16];
    }
    raw->append(reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest);
    return text;
}

/// xxh3-128 of the digests of a tensor's mebibytes, of the output's bytes as they must be.
std::string expected_digest(const plan::Plan& plan, std::size_t at, const std::string& bytes) {
    const outputs::Slot& slot = plan.placement.slots[at];
    Bytes begin = slot.offset;
    for (std::uint32_t file = 0; file < slot.file; ++file) {
        begin += plan.placement.files[file].size;
    }
    const std::string tensor = bytes.substr(begin, plan.targets[at].bytes());
    std::string blocks;
    for (std::size_t from = 0; from < tensor.size(); from += 1U << 20U) {
        const std::string block = tensor.substr(from, 1U << 20U);
        (void)hex_of(block.data(), block.size(), &blocks);
    }
    std::string ignored;
    return hex_of(blocks.data(), blocks.size(), &ignored);
}

void expect_digests(mpi::Comm& comm, Sample& sample, plan::JobPlan choice) {
    for (const plan::Strategy strategy : {plan::Strategy::direct, plan::Strategy::collective}) {
        choice.strategy = strategy;
        const plan::Plan plan = plan::make_plan(
            sample.targets(), sample.files(),
            plan::Visibility::everywhere(comm.size(), sample.files().size()), choice);
        execute::Result result;
        (void)sample.merge(plan, result);
        ASSERT_EQ(result.tensor_digests.size(), comm.rank() == 0 ? plan.targets.size() : 0U);
        for (std::size_t i = 0; i < result.tensor_digests.size(); ++i) {
            EXPECT_EQ(result.tensor_digests[i], expected_digest(plan, i, sample.expected(plan)))
                << plan.targets[i].name.text() << " with " << comm.size() << " ranks";
        }
    }
}

TEST(Run, digests_do_not_depend_on_ranks_cuts_or_strategy) {
    mpi::Comm& comm = mpi::world();
    plan::JobPlan choice;
    choice.memory_limit = Bytes{1} << 20U;
    {
        Sample sample(comm);
        fill(sample);
        for (const Bytes shard_size : {Bytes{5'000'000'000}, Bytes{20'000}}) {
            choice.max_shard_size = shard_size;
            expect_digests(comm, sample, choice);
        }
    }
    // One block and a bit: at five ranks, four of them hold nothing but parts of the first block.
    Sample sample(comm);
    sample.add("small_a", 1, 3, 0, 1, false);
    sample.add("block_b", 541, 997, 0, 2, false);
    sample.write_files();
    expect_digests(comm, sample, choice);
}

TEST(Run, files_are_made_by_the_ranks_that_write_their_first_bytes) {
    mpi::Comm& comm = mpi::world();
    Sample sample(comm);
    for (char id = 'a'; id <= 'k'; ++id) {
        sample.add(std::string("tensor_") + id, 100, 100, 0, 1, false);
    }
    sample.write_files();
    plan::JobPlan choice;
    choice.max_shard_size = 20'000;
    choice.strategy = plan::Strategy::direct;
    const plan::Plan plan =
        plan::make_plan(sample.targets(), sample.files(),
                        plan::Visibility::everywhere(comm.size(), sample.files().size()), choice);
    ASSERT_EQ(plan.placement.files.size(), 11U);
    execute::Result result;
    // A rank's umask marks the files that it makes.
    const auto mask_of = [](int rank) { return static_cast<mode_t>(rank % 4 * 2) << 3U; };
    const mode_t before = ::umask(mask_of(comm.rank()));
    EXPECT_TRUE(sample.merge(plan, result) == sample.expected(plan));
    ::umask(before);
    Bytes begin = 0;
    for (const outputs::PlacedFile& file : plan.placement.files) {
        struct stat status {};
        ASSERT_COLLECTIVE(::stat((sample.directory() / "out" / file.name).c_str(), &status) == 0);
        int owner = comm.size() - 1;
        while (plan.cuts[static_cast<std::size_t>(owner)] > begin) {
            --owner;
        }
        EXPECT_EQ(status.st_mode & 0070U, 0060U & ~mask_of(owner)) << file.name;
        begin += 20'000;
    }
}

TEST(Run, sends_only_what_a_rank_cannot_see) {
    mpi::Comm& comm = mpi::world();
    Sample sample(comm);
    fill(sample);
    plan::Visibility visibility = plan::Visibility::everywhere(comm.size(), sample.files().size());
    if (comm.size() > 1) {
        visibility.group_sees.push_back(visibility.group_sees.front());
        visibility.group_of_rank.back() = 1;
        visibility.group_sees[1][0] = false;
        visibility.group_sees[0][1] = false;
    }
    for (const auto& [strategy, is_ahead] : kWays) {
        plan::JobPlan choice;
        choice.strategy = strategy;
        choice.read_ahead = is_ahead;
        choice.memory_limit = Bytes{1} << 20U;
        const plan::Plan plan =
            plan::make_plan(sample.targets(), sample.files(), visibility, choice);
        EXPECT_EQ(plan.strategy, strategy);
        execute::Result result;
        EXPECT_TRUE(sample.merge(plan, result) == sample.expected(plan));
    }
}

TEST(Run, finds_a_replica_that_differs) {
    mpi::Comm& comm = mpi::world();
    Sample sample(comm);
    sample.add("rows_a", 70, 30, 0, 2, false);
    sample.add("rows_b", 70, 30, 0, 2, false);
    sample.data()[1].resize(sample.data()[1].size() + 1050);
    const Bytes copy_at = (sample.data()[1].size() - 1050) * 2;
    std::copy_n(sample.data()[0].begin(), 1050, sample.data()[1].end() - 1050);
    sample.data()[1].back() ^= 1U;
    sample.write_files();
    auto targets = sample.targets();
    targets[0].replicas.push_back(targets[0].operands[0]);
    targets[0].replicas.own()[0].file = 1;
    targets[0].replicas.own()[0].base = copy_at;
    for (const auto& [strategy, is_ahead] : kWays) {
        plan::JobPlan choice;
        choice.strategy = strategy;
        choice.read_ahead = is_ahead;
        choice.replicas = plan::Replicas::verify;
        const plan::Plan plan = plan::make_plan(
            targets, sample.files(),
            plan::Visibility::everywhere(comm.size(), sample.files().size()), choice);
        execute::Result result;
        EXPECT_TRUE(sample.merge(plan, result) == sample.expected(plan));
        ASSERT_EQ(result.differences.size(), 1U);
        EXPECT_EQ(result.differences[0].target, 0U);
        EXPECT_EQ(result.differences[0].n_elements, 1);
    }
}

TEST(Run, agrees_on_a_file_that_is_cut_short) {
    mpi::Comm& comm = mpi::world();
    for (const auto& [strategy, is_ahead] : kWays) {
        Sample sample(comm);
        fill(sample);
        plan::JobPlan choice;
        choice.strategy = strategy;
        choice.read_ahead = is_ahead;
        const plan::Plan plan = plan::make_plan(
            sample.targets(), sample.files(),
            plan::Visibility::everywhere(comm.size(), sample.files().size()), choice);
        comm.barrier();
        if (comm.rank() == 0) {
            fs::resize_file(sample.directory() / "shard2", 100);
        }
        comm.barrier();
        execute::Result result;
        try {
            (void)sample.merge(plan, result);
            ADD_FAILURE() << "not refused";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::io);
            EXPECT_NE(error.full_text().find("shard2"), std::string::npos) << error.full_text();
        }
    }
}

}  // namespace
}  // namespace shardweld
