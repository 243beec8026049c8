// The measurement behind `--strategy auto`: ends, agrees, and is of the machine.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "shardweld/core/codec.hpp"
#include "shardweld/execute/rates.hpp"

#include "world.hpp"

namespace shardweld {
namespace {

namespace fs = std::filesystem;

/// Each rank has its own directory with a shard of 3 MiB and a small file.
class RatesTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name(fs::temp_directory_path() / "shardweld-rates-XXXXXX");
        ASSERT_COLLECTIVE(mkdtemp(name.data()) != nullptr);
        directory_ = name;
        write("small", 100);
        write("large", Bytes{3} << 20U);
    }
    void TearDown() override { fs::remove_all(directory_); }

    void write(const std::string& name, Bytes size) {
        std::ofstream out(directory_ / name, std::ios::binary);
        out << std::string(size, 'x');
        files_.push_back({name, size});
    }

    plan::Rates measure(const plan::Visibility& visibility) {
        return execute::measure_rates(mpi::world(), {directory_, &files_, 4}, visibility);
    }

    fs::path directory_;
    std::vector<catalogue::File> files_;
};

TEST_F(RatesTest, are_the_same_on_all_ranks) {
    mpi::Comm& comm = mpi::world();
    const plan::Rates rates = measure(plan::Visibility::everywhere(comm.size(), 2));
    ByteWriter writer;
    writer.put(rates);
    const auto mine = writer.take();
    for (const auto& other : comm.all_gather(mine)) {
        EXPECT_EQ(other, mine);
    }
    EXPECT_GT(rates.read_latency_s, 0);
    EXPECT_LT(rates.read_latency_s, 1);
    EXPECT_GT(rates.read_bytes_s, 1e6);
    EXPECT_GT(rates.copy_bytes_s, 1e6);
    EXPECT_EQ(rates.write_bytes_s, 0);
    EXPECT_EQ(rates.message_latency_s > 0, comm.size() > 1);
    EXPECT_EQ(rates.exchange_bytes_s > 1e6, comm.size() > 1);
}

TEST_F(RatesTest, of_reading_are_zero_where_nobody_sees_a_file) {
    const plan::Visibility nothing{
        std::vector<std::uint32_t>(mpi::index_of(mpi::world().size()), 0), {{false, false}}};
    const plan::Rates rates = measure(nothing);
    EXPECT_EQ(rates.read_bytes_s, 0);
    EXPECT_GT(rates.copy_bytes_s, 0);
}

TEST_F(RatesTest, fail_together_when_one_rank_cannot_read_a_file) {
    mpi::Comm& comm = mpi::world();
    if (comm.rank() == comm.size() - 1) {
        fs::remove(directory_ / "large");
    }
    bool has_failed = false;
    try {
        (void)measure(plan::Visibility::everywhere(comm.size(), 2));
    } catch (const Error& error) {
        has_failed = error.code() == ErrorCode::not_found;
        EXPECT_NE(std::string(error.what()).find("large"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(has_failed);
}

}  // namespace
}  // namespace shardweld
