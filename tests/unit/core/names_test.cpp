#include "core/names/names.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace shardweld {
namespace {

using namespace std::string_view_literals;

TEST(Names, of_files_lead_below_their_directory) {
    for (const std::string_view path : {"a", "model/__0_0.distcp", ".metadata", "a b"}) {
        EXPECT_TRUE(leads_below(path)) << path;
        EXPECT_TRUE(stays_below(path)) << path;
    }
    for (const std::string_view path : {""sv, "/a"sv, "../a"sv, "a/../../b"sv, "a\0b"sv, ".."sv}) {
        EXPECT_FALSE(leads_below(path)) << path;
        EXPECT_FALSE(stays_below(path)) << path;
    }
    for (const std::string_view path : {"."sv, "./a/"sv, "a//b"sv}) {
        EXPECT_FALSE(leads_below(path)) << path;
        EXPECT_TRUE(stays_below(path)) << path;
    }
}

TEST(Names, that_commands_see_are_plain) {
    for (const std::string_view name :
         {"iter_0000010", "checkpoint-10", "epoch=0-step=10.ckpt", "__init__.py", "2"}) {
        EXPECT_TRUE(is_plain_name(name)) << name;
    }
    for (const std::string_view name :
         {""sv, "."sv, ".."sv, "-rf"sv, "a b"sv, "a;b"sv, "$(id)-step=1"sv, "a/b"sv, "a\nb"sv,
          "a\0"sv, "\xc3\xa4"sv, "`id`"sv, "a'b"sv}) {
        EXPECT_FALSE(is_plain_name(name)) << name;
    }
}

}  // namespace
}  // namespace shardweld
