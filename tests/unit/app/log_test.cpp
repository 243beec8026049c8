#include "app/messages/log.hpp"

#include <sstream>

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
    EXPECT_EQ(out.str(),
              "shardweld: found 4 files\nshardweld: warning: odd\nshardweld: error: bad\n");
}

TEST(Log, tells_an_error_in_its_parts) {
    const Error error = Error(ErrorCode::mismatch, "two copies differ", "copy them again")
                            .add_context("tensor x")
                            .add_found("3 bytes", "4 bytes")
                            .set_detail("llama.recipe:24");
    std::ostringstream out;
    Log(out, LogLevel::info, true).error(error);
    const std::string text =
        "shardweld: error: two copies differ\n"
        "  where: tensor x; found 3 bytes, expected 4 bytes\n"
        "  hint: copy them again\n";
    EXPECT_EQ(out.str(), text);
    std::ostringstream close;
    Log(close, LogLevel::debug, true).error(error);
    EXPECT_EQ(close.str(), text + "  detail: llama.recipe:24\n");
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
    EXPECT_EQ(out.str(), "shardweld: caf\xC3\xA9?[31m??\none more line\n");
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
