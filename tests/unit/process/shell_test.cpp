#include <gtest/gtest.h>

#include "process/process.hpp"

namespace shardweld::process {
namespace {

TEST(ShellWord, leaves_plain_words_alone) {
    EXPECT_EQ(shell_word("/data/step_100/actor"), "/data/step_100/actor");
    EXPECT_EQ(shell_word("--max_shard_size=5GB"), "--max_shard_size=5GB");
}

TEST(ShellWord, is_one_word_of_the_same_bytes_for_a_shell) {
    for (const std::string text :
         {"", " ", "it's", "''", "$(echo no)", "a\\b`c`\"d\"!", "*", "~", "#x", "a;b&c|d", "-n"}) {
        std::string seen;
        Process shell{"/bin/sh", {"-c", "printf '%s|' " + shell_word(text)}, {}, 10, {}};
        shell.on_line = [&](std::string_view line) { seen += line; };
        const auto ending = run(shell);
        ASSERT_TRUE(ending && ending->is_success()) << text;
        EXPECT_EQ(seen, text + "|");
    }
}

}  // namespace
}  // namespace shardweld::process
