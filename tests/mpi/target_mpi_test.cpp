// Whether all ranks see one target directory.
#include <gtest/gtest.h>

#include "publish/target.hpp"
#include "support/temporary_directory.hpp"

#include "world.hpp"

namespace shardweld::publish {
namespace {

using mpi::world;

/// A directory made by rank 0, by its name on all ranks.
std::string shared_name(const test::TemporaryDirectory& mine) {
    const std::string name = mine.path().string();
    const auto* begin = reinterpret_cast<const std::byte*>(name.data());
    const auto bytes = world().broadcast({begin, begin + name.size()}, 0);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal(const fs::path& directory) {
    try {
        check_same_directory(world(), directory);
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.full_text();
    }
    return "no error";
}

TEST(CheckSameDirectory, accepts_one_directory_and_leaves_no_trace) {
    const test::TemporaryDirectory mine;
    EXPECT_EQ(refusal(shared_name(mine)), "no error");
    EXPECT_TRUE(fs::is_empty(mine.path()));
    world().barrier();
}

TEST(CheckSameDirectory, refuses_another_directory_under_the_same_name) {
    const test::TemporaryDirectory mine;  // each rank has its own, as on a local disk
    const std::string text = refusal(mine.path());
    if (world().size() == 1) {
        EXPECT_EQ(text, "no error");
        return;
    }
    EXPECT_EQ(text.rfind("launch: the target is not the same directory for all ranks: ", 0), 0U)
        << text;
    EXPECT_NE(text.find("choose a --target_dir on a shared file system"), std::string::npos);
}

TEST(CheckSameDirectory, refuses_what_another_run_left_under_the_same_name) {
    const test::TemporaryDirectory mine;
    mine.put(".nonce", "1.2.3.");
    EXPECT_EQ(refusal(mine.path()).substr(0, 7), world().size() == 1 ? "no erro" : "launch:");
}

}  // namespace
}  // namespace shardweld::publish
