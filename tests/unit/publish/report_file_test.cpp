#include "publish/report_file.hpp"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

using test::content_of;
using test::error_text;
using test::TemporaryDirectory;

constexpr const char* kReport =
    R"({"schema": 1, "tool": {"version": "1.0", "git": "abc"}, "command": "merge", "exit": {}})";

std::ptrdiff_t n_files(const TemporaryDirectory& place) {
    return std::distance(fs::directory_iterator(place.path()), fs::directory_iterator());
}

TEST(IsReport, knows_reports_by_what_they_hold) {
    const TemporaryDirectory place;
    const auto is = [&](const std::string& text) {
        return look_at_report(place.put("x", text)).has_value();
    };
    EXPECT_TRUE(is(kReport));
    EXPECT_TRUE(is(R"({"schema":7,"more":[{"a":[1,2.5,-1,null,true]}],"command":"other",)"
                   R"("tool":{"git":"","version":""}})"))
        << "of any version";
    for (const char* text :
         {"", "{", "[]", "3", R"("schema")", R"({"schema":1})", R"({"schema": 1, "old": true})",
          R"({"schema": "1", "tool": {"version": "", "git": ""}, "command": "x"})",
          R"({"schema": 1, "tool": {"version": ""}, "command": "x"})",
          R"({"schema": 1, "tool": "version git", "command": "x"})",
          R"({"a": {"schema": 1, "tool": {"version": "", "git": ""}, "command": "x"}})",
          R"([{"schema": 1, "tool": {"version": "", "git": ""}, "command": "x"}])"}) {
        EXPECT_FALSE(is(text)) << text;
    }
    EXPECT_FALSE(is(std::string(kReport) + "and my notes"));
    EXPECT_FALSE(is(std::string(kReport).substr(0, 80)));
    EXPECT_FALSE(is(std::string(1'000'000, '[')));
    EXPECT_FALSE(look_at_report(place.path()));
    EXPECT_FALSE(look_at_report(place.path() / "none"));
}

TEST(WriteReportFile, replaces_reports_empty_files_and_nothing) {
    const TemporaryDirectory place;
    const fs::path path = place.path() / "r.json";
    write_report("one", path, false);
    EXPECT_EQ(content_of(path), "one");
    EXPECT_EQ(error_text([&] { write_report("two", path, false); }),
              "io: " + path.string() + " is left as it is: it exists and is not a report");
    for (const char* before : {"", kReport}) {
        place.put("r.json", before);
        write_report("three", path, true);
        EXPECT_EQ(content_of(path), "three");
    }
    EXPECT_EQ(n_files(place), 1);
}

TEST(WriteReportFile, keeps_links_and_replaces_what_they_lead_to) {
    const TemporaryDirectory place;
    place.put("disk/r.json", kReport);
    fs::create_symlink("disk/r.json", place.path() / "link.json");
    write_report("new", place.path() / "link.json", false);
    EXPECT_TRUE(fs::is_symlink(place.path() / "link.json"));
    EXPECT_EQ(content_of(place.path() / "disk/r.json"), "new");
    ASSERT_EQ(::mkfifo((place.path() / "pipe").c_str(), 0600), 0);
    EXPECT_NE(error_text([&] {
                  write_report("x", place.path() / "pipe", false);
              }).find("it is not a regular file"),
              std::string::npos);
}

}  // namespace
}  // namespace shardweld::publish
