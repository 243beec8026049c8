// Real processes: what they say, how they end, what they inherit.
#include "process/process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace shardweld::process {
namespace {

using Lines = std::vector<std::string>;

struct Heard {
    std::optional<Ending> ending;
    Lines lines;
};

Heard run_shell(const std::string& script, std::optional<double> limit_s = {}) {
    Heard heard;
    heard.ending = run({"/bin/sh",
                        {"-c", script},
                        {"SHARDWELD_X=1", "PATH=none"},
                        limit_s,
                        [&](std::string_view line) { heard.lines.emplace_back(line); }});
    return heard;
}

TEST(Run, hears_both_outputs_and_the_exit_code) {
    const Heard heard = run_shell("echo one; echo two >&2; printf 'a\\rb'; exit 3");
    EXPECT_EQ(heard.lines, (Lines{"one", "two", "a", "b"}));
    ASSERT_TRUE(heard.ending);
    EXPECT_EQ(heard.ending->code, 3);
    EXPECT_FALSE(heard.ending->is_success());
}

TEST(Run, gives_an_empty_input_no_other_files_and_the_environment) {
    const int other = ::open("/dev/null", O_RDONLY);  // inherited unless somebody cares
    ASSERT_GE(other, 0);
    const Heard heard = run_shell(
        "cat; echo $SHARDWELD_X; test \"$PATH\" = none || echo kept; test -e /proc/self/fd/" +
        std::to_string(other) + " || echo closed");
    ::close(other);
    EXPECT_EQ(heard.lines, (Lines{"1", "kept", "closed"}));
}

TEST(Run, withholds_variables) {
    (void)::setenv("SHARDWELD_RANK", "1", 1);  // NOLINT(concurrency-mt-unsafe): no threads
    Lines lines;
    const auto hear = [&](std::string_view line) { lines.emplace_back(line); };
    Process asked{
        "/bin/sh", {"-c", "echo $SHARDWELD_RANK$SHARDWELD_X"}, {"SHARDWELD_X=2"}, {}, hear};
    (void)run(asked);
    asked.withheld = {"SHARDWELD_R"};
    (void)run(asked);
    EXPECT_EQ(lines, (Lines{"12", "2"}));
}

TEST(Run, bounds_a_line) {
    const Heard heard = run_shell("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end");
    ASSERT_EQ(heard.lines.size(), 2U);
    EXPECT_EQ(heard.lines[0].size(), 65536U);
    EXPECT_EQ(heard.lines[1], "end");
}

TEST(Run, tells_a_signal_from_an_exit) {
    const Heard heard = run_shell("kill -9 $$");
    ASSERT_TRUE(heard.ending);
    EXPECT_EQ(heard.ending->signal, 9);
    EXPECT_FALSE(heard.ending->code);
}

TEST(Run, ends_what_takes_too_long) {
    const Heard heard = run_shell("exec sleep 60", 0.2);
    ASSERT_TRUE(heard.ending);
    EXPECT_TRUE(heard.ending->took_too_long);
    EXPECT_EQ(heard.ending->signal, SIGTERM);
}

TEST(Run, does_not_wait_for_a_grandchild_that_keeps_the_output) {
    const Heard heard = run_shell("sleep 20 & echo done");
    EXPECT_EQ(heard.lines, Lines{"done"});
    ASSERT_TRUE(heard.ending);
    EXPECT_TRUE(heard.ending->is_success());
    EXPECT_FALSE(heard.ending->took_too_long);
}

TEST(Run, passes_a_request_to_stop_on) {
    // The child itself asks, once it is there.
    const Heard heard = run_shell("kill -TERM $PPID; exec sleep 60");
    ASSERT_TRUE(heard.ending);
    EXPECT_TRUE(heard.ending->was_stopped);
    EXPECT_EQ(heard.ending->signal, SIGTERM);
    struct sigaction after {};
    ::sigaction(SIGTERM, nullptr, &after);
    EXPECT_EQ(after.sa_handler, SIG_DFL);
}

TEST(Run, says_when_there_is_nothing_to_run) {
    EXPECT_FALSE(run({"/nonexistent/hf", {}, {}, {}, [](std::string_view) {}}));
    EXPECT_EQ(errno, ENOENT);
}

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
