// Looks at a run over time: when a step is ready, and that it is so once.
#include "app/watch/lookout.hpp"

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::app::watching {
namespace {

class SeenRun {
  public:
    explicit SeenRun(const WatchRequest& request = {})
        : lookout(place_.path(), {place_.path() / "out"}, request) {}

    void save(const std::string& step, const std::string& text = "x") const {
        place_.put(step + "/__0_0.distcp", text);
        place_.put(step + "/.metadata", text);
    }
    void put(const std::string& name) const { place_.put(name); }
    void remove(const std::string& name) const { fs::remove_all(place_.path() / name); }
    /// The name of the step that is next.
    std::string next(double now) {
        look = lookout.look(now);
        return look.next ? look.next->place.name : "";
    }

  private:
    test::TemporaryDirectory place_;

  public:
    Lookout lookout;
    Look look;
};

TEST(Lookout, waits_until_files_have_been_quiet_for_two_intervals) {
    SeenRun run;
    run.save("step-1");
    EXPECT_EQ(run.next(100), "");
    EXPECT_TRUE(run.look.is_awaited);
    EXPECT_EQ(run.next(159), "");
    run.put("step-1/more.json");
    EXPECT_EQ(run.next(161), "");
    EXPECT_EQ(run.next(220), "");
    EXPECT_EQ(run.next(221), "step-1");
    run.lookout.settle(*run.look.next, Lookout::End::made, 221);
    EXPECT_EQ(run.next(1000), "");
    EXPECT_EQ(run.look.n_waiting, 0U);
    EXPECT_EQ(run.look.idle_s, 779);
}

TEST(Lookout, takes_the_lowest_number_and_holds_no_step_up_for_another) {
    SeenRun run;
    run.put("step-9/__0_0.distcp");
    run.save("step-10");
    run.save("step-100");
    run.save("out/step-1");
    (void)run.next(0);
    ASSERT_EQ(run.look.news.size(), 1U);
    EXPECT_EQ(run.look.news.front(), "step-9: waiting for .metadata");
    EXPECT_EQ(run.next(60), "step-10");
    EXPECT_TRUE(run.look.news.empty());
    run.lookout.settle(*run.look.next, Lookout::End::refused, 60);
    EXPECT_EQ(run.next(61), "step-100");
}

TEST(Lookout, takes_only_what_is_asked_for) {
    WatchRequest request;
    request.every = 10;
    request.from = 20;
    SeenRun run(request);
    for (const char* const step : {"step-10", "step-20", "step-25"}) {
        run.save(step);
    }
    (void)run.next(0);
    EXPECT_EQ(run.next(60), "step-20");
    EXPECT_EQ(run.look.n_steps, 1U);
}

TEST(Lookout, finds_steps_further_down) {
    SeenRun run;
    run.put("logs/a.txt");
    run.save("v0/checkpoints/step-3");
    (void)run.next(0);
    EXPECT_EQ(run.next(60), "step-3");
}

TEST(Lookout, tells_once_of_steps_of_one_name) {
    SeenRun run;
    run.save("a/step-3");
    run.save("b/step-3");
    (void)run.next(0);
    ASSERT_EQ(run.look.doubles.size(), 1U);
    EXPECT_EQ(run.look.doubles.front().parent_path().filename(), "b");
    EXPECT_EQ(run.next(60), "step-3");
    EXPECT_TRUE(run.look.doubles.empty());
}

TEST(Lookout, takes_a_step_again_once_it_is_another) {
    SeenRun run;
    run.save("step-1");
    (void)run.next(0);
    ASSERT_EQ(run.next(60), "step-1");
    EXPECT_FALSE(run.look.next->was_made);
    const ReadyStep first = *run.look.next;
    run.lookout.settle(first, Lookout::End::made, 60);
    run.save("step-1", "another");
    EXPECT_EQ(run.next(100), "");
    ASSERT_EQ(run.next(160), "step-1");
    EXPECT_TRUE(run.look.next->was_made);
    // Written to while it was merged: what was made is not of these files.
    run.lookout.settle(first, Lookout::End::made, 160);
    EXPECT_EQ(run.next(161), "");
    EXPECT_EQ(run.next(221), "step-1");
}

TEST(Lookout, leaves_what_was_removed_while_it_is_the_same) {
    SeenRun run;
    run.save("step-1");
    (void)run.next(0);
    run.lookout.leave("step-1", run.lookout.print_of("step-1"));
    EXPECT_EQ(run.next(60), "");
    run.save("step-1", "another");
    (void)run.next(61);
    EXPECT_EQ(run.next(121), "step-1");
}

TEST(Lookout, tries_what_failed_once_more_after_a_while) {
    SeenRun run;
    run.save("step-1");
    (void)run.next(0);
    ASSERT_EQ(run.next(60), "step-1");
    run.lookout.settle(*run.look.next, Lookout::End::failed, 60);
    EXPECT_EQ(run.next(600), "");
    EXPECT_EQ(run.next(660), "step-1");
}

TEST(Lookout, takes_a_copy_without_signs_when_it_was_quiet_for_long) {
    SeenRun run;
    run.put("global_step_5/actor/model_world_size_1_rank_0.pt");
    (void)run.next(0);
    EXPECT_FALSE(run.look.is_awaited);
    EXPECT_EQ(run.next(599), "");
    ASSERT_EQ(run.next(600), "global_step_5");
    EXPECT_FALSE(run.look.next->has_signs);
    run.put("global_step_6/actor/model_world_size_1_rank_0.pt");
    run.put("latest_checkpointed_iteration.txt");  // it names none
    (void)run.next(700);
    EXPECT_EQ(run.next(5000), "");
}

TEST(Lookout, says_when_a_step_is_gone) {
    SeenRun run;
    run.put("step-1/__0_0.distcp");
    (void)run.next(0);
    run.remove("step-1");
    (void)run.next(1);
    ASSERT_EQ(run.look.news.size(), 1U);
    EXPECT_EQ(run.look.news.front(), "step-1 was deleted before it was complete");
}

}  // namespace
}  // namespace shardweld::app::watching
