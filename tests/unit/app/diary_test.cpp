// The diary of a watch, as the next one reads it.
#include "app/watch/diary.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/temporary_directory.hpp"

namespace shardweld::app::watching {
namespace {

TEST(Diary, tells_the_next_watch_what_was_removed_and_what_is_left_to_do) {
    const Earlier earlier = earlier_in(
        R"({"event": "merging", "step": "a", "then": true}
{"event": "then", "step": "a"}
{"event": "removed", "step": "a", "inputs": "12"}
{"event": "merging", "step": "b", "then": true}
{"event": "merging", "step": "c", "then": false, "upload": true}
{"event": "merging", "step": "e", "then": false, "upload": true}
{"event": "made", "step": "e"}
{"event": "removed", "step": "d", "inputs": "34"}
{"event": "merging", "step": "d", "then": false}
null
{"event": "removed", "st)");
    EXPECT_EQ(earlier.removed, (std::map<std::string, std::string>{{"a", "12"}}));
    EXPECT_EQ(earlier.unfollowed, (std::set<std::string>{"b"}));
    EXPECT_EQ(earlier.unsent, (std::set<std::string>{"c"}));
}

TEST(Diary, tells_the_next_watch_which_steps_have_deltas_and_where_the_last_one_leads) {
    const Earlier earlier = earlier_in(
        R"({"event": "delta", "step": "a", "number": 1, "directory": "/d", "version": "000000"}
{"event": "delta", "step": "b", "number": 2, "directory": "/d", "version": "000001"}
{"event": "delta", "step": "c", "number": 3, "directory": "/d", "version": "000002"}
{"event": "delta", "step": "a", "number": 1, "directory": "/e", "version": "000007"}
{"event": "delta_failed", "step": "d", "number": 4}
{"event": "merging", "step": "b"}
{"event": "made", "step": "a"})");
    ASSERT_EQ(earlier.links.size(), 2U);
    const Links& links = earlier.links.at("/d");
    EXPECT_EQ(links.done, (std::set<std::string>{"c"}));
    EXPECT_EQ(links.last->step, "c");
    EXPECT_EQ(links.last->number, 3);
    EXPECT_EQ(links.last->version, 2);
    EXPECT_EQ(earlier.links.at("/e").last->version, 7);
}

TEST(Diary, goes_on_behind_a_line_that_was_cut_off) {
    const test::TemporaryDirectory place;
    place.put(kDiary, R"({"event": "removed")");
    Events nobody;
    Log log(nobody, false);
    Diary(place.path(), log, false).write("removed", {{"step", "a"}, {"inputs", "1"}});
    const Diary next(place.path(), log, false);
    EXPECT_EQ(next.earlier().removed, (std::map<std::string, std::string>{{"a", "1"}}));
}

TEST(Metrics, are_prometheus_text) {
    Counts counts;
    counts.made = 3;
    counts.bytes = 1'000'000'000'000;
    const std::string text = metrics_text(counts);
    EXPECT_NE(text.find("# TYPE shardweld_watch_steps_made_total counter\n"
                        "shardweld_watch_steps_made_total 3\n"),
              std::string::npos);
    EXPECT_NE(text.find("\nshardweld_watch_bytes_written_total 1000000000000\n"),
              std::string::npos);
    EXPECT_NE(text.find("\nshardweld_watch_last_step -1\n"), std::string::npos);
}

}  // namespace
}  // namespace shardweld::app::watching
