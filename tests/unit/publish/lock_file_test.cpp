#include "publish/lock_file.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

namespace shardweld::publish {
namespace {

TEST(Holder, is_told_in_words_and_read_back) {
    const Holder holder{"node1", 12, "34", 2, "boot"};
    const Holder read = holder_from(text_of(holder));
    EXPECT_EQ(text_of(read), "node1 12 34 2 boot\n");
    EXPECT_EQ(name_of(read), "process 12 of job 34 on host node1");
    EXPECT_EQ(name_of(holder_from("node1 12\n")), "process 12 on host node1") << "older runs";
    EXPECT_EQ(name_of(holder_from("node1 12 34\n")), "process 12 of job 34 on host node1");
    for (const char* text : {"", "node1", "node1 x", "- - -", "node1 -5"}) {
        EXPECT_EQ(name_of(holder_from(text)), "a process that left no name") << text;
    }
}

TEST(Holder, is_over_where_that_is_certain) {
    const Holder own = this_process("34", 1);
    const Holder alive{own.host, ::getpid(), "", 0, own.boot};
    EXPECT_FALSE(is_over(alive, own));
    Holder rebooted = alive;
    rebooted.boot = "another";
    EXPECT_EQ(is_over(rebooted, own), !own.boot.empty());
    EXPECT_FALSE(is_over({"elsewhere", 1, "", 0, ""}, own)) << "nobody can tell";
    EXPECT_TRUE(is_over({"elsewhere", 1, "34", 0, ""}, own)) << "an earlier start of the job";
    EXPECT_FALSE(is_over({"elsewhere", 1, "34", 1, ""}, own)) << "this start of the job";
    EXPECT_FALSE(is_over({"elsewhere", 1, "35", 0, ""}, own)) << "another job";
    EXPECT_FALSE(is_over(Holder(), own)) << "it has written nothing yet";
}

}  // namespace
}  // namespace shardweld::publish
