#include "app/messages/log.hpp"

#include <sstream>
#include <stdlib.h>

#include <fcntl.h>
#include <sys/ioctl.h>

#include <gtest/gtest.h>

namespace shardweld::app {
namespace {

TEST(Log, writes_up_to_its_level_and_names_warnings_and_errors) {
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    log.debug("small");
    log.info("found 4 files");
    log.warning("odd");
    log.error(Error(ErrorCode::io, "bad"));
    EXPECT_EQ(out.str(), "found 4 files\nwarning: odd\nerror: bad\n  see: shardweld help 7\n");
}

TEST(Log, tells_an_error_in_its_parts) {
    const Error error = Error(ErrorCode::mismatch, "two copies differ", "copy them again")
                            .add_context("tensor x")
                            .add_context("found 3 bytes, expected 4 bytes")
                            .set_detail("llama.recipe:24");
    std::ostringstream out;
    Log(out, LogLevel::info, true).error(error);
    const std::string text =
        "error: two copies differ\n"
        "  where: tensor x; found 3 bytes, expected 4 bytes\n"
        "  hint: copy them again\n";
    const std::string see = "  see: shardweld help 6\n";
    EXPECT_EQ(out.str(), text + see);
    std::ostringstream close;
    Log(close, LogLevel::debug, true).error(error);
    EXPECT_EQ(close.str(), text + "  detail: llama.recipe:24\n" + see);
}

TEST(Log, leaves_a_wrong_command_line_to_its_own_help) {
    std::ostringstream out;
    Log(out, LogLevel::info, true).error(Error(ErrorCode::usage, "no option --x"));
    EXPECT_EQ(out.str(), "error: no option --x\n");
}

TEST(Log, knows_what_usually_helps) {
    EXPECT_EQ(hint_of(Error(ErrorCode::corrupt, "bad")),
              "copy the file again from where it was saved");
    EXPECT_EQ(hint_of(Error(ErrorCode::corrupt, "bad", "mend it")), "mend it");
    EXPECT_EQ(hint_of(Error(ErrorCode::io, "bad")), "");
}

TEST(Log, is_mute_on_other_ranks) {
    std::ostringstream out;
    Log log(out, LogLevel::debug, false);
    log.error(Error(ErrorCode::io, "bad"));
    EXPECT_EQ(out.str(), "");
    EXPECT_FALSE(log.shows(LogLevel::error));
}

TEST(Log, prints_nothing_that_a_terminal_obeys) {
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    log.info(std::string_view("caf\xC3\xA9\x1b[31m\0\x7f\none more line", 26));
    // 8-bit controls, a direction of writing, and bytes that are no text.
    log.info("\u009b31m \u202e\u6a21\u578b \x9b\xff");
    EXPECT_EQ(out.str(), "caf\xC3\xA9?[31m??\none more line\n?31m ?\u6a21\u578b ??\n");
}

/// What a log says on a terminal of so many columns.
template <typename Say>
std::string on_terminal(unsigned short width, bool has_colours, const Say& say) {
    has_colours ? ::unsetenv("NO_COLOR") : ::setenv("NO_COLOR", "1", 1);
    const int fd = ::posix_openpt(O_RDWR | O_NOCTTY);
    const winsize size{25, width, 0, 0};
    EXPECT_EQ(::ioctl(fd, TIOCSWINSZ, &size), 0);
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    log.attach(std::make_shared<const Terminal>(fd));
    ::unsetenv("NO_COLOR");
    say(log);
    return out.str();
}

TEST(Log, breaks_lines_between_words_on_a_terminal_only) {
    const Headline line{"wrote", "a long name", " in 2.0 s: model.safetensors, config.json"};
    const auto say = [&](Log& log) {
        log.info(line);
        log.error(
            Error(ErrorCode::io, "something is not as it was", "look at it again now, and again"));
    };
    EXPECT_EQ(on_terminal(30, false, say),
              "wrote: a long name in 2.0 s:\n  model.safetensors,\n  config.json\n"
              "error: something is not as\n  it was\n"
              "  hint: look at it again\n    now, and again\n"
              "  see: shardweld help 7\n");
    EXPECT_EQ(on_terminal(30, true, [](Log& log) { log.error(Error(ErrorCode::io, "bad")); }),
              "\x1b[1;31merror: \x1b[0mbad\x1b[2m\n  see: shardweld help 7\x1b[0m\n");
    EXPECT_EQ(on_terminal(30, true, [&](Log& log) { log.info(line); }),
              "\x1b[2mwrote: \x1b[0m\x1b[1ma long name\x1b[0m in 2.0 s:\n"
              "  model.safetensors,\n  config.json\n");
    std::ostringstream out;
    Log(out, LogLevel::info, true).info(line);
    EXPECT_EQ(out.str(), line.text() + "\n");
}

TEST(Log, leaves_commands_whole) {
    const Headline line{"next", "check OUT --target vllm && serve OUT", "", true};
    EXPECT_EQ(on_terminal(30, false, [&](Log& log) { log.info(line); }),
              "next: check OUT --target vllm &&\n      serve OUT\n");
}

TEST(Log, speaks_json_to_programs) {
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    log.speak_json();
    log.info("found \"x\"");
    log.error(Error(ErrorCode::mismatch, "bad", "mend it").add_context("file a"));
    EXPECT_EQ(out.str(),
              R"({"event":"message","level":"info","text":"found \"x\""})"
              "\n"
              R"({"event":"error","code":6,"name":"mismatch","what":"bad","where":["file a"],)"
              R"("hint":"mend it","detail":""})"
              "\n");
}

}  // namespace
}  // namespace shardweld::app
