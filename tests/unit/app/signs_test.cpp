// Which file ends a save, by framework: without it a step is not complete, whatever else is there.
#include "app/watch/signs.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace shardweld::app::watching {
namespace {

/// Files in the order in which they are written, a second apart.
StepFiles written(const std::vector<std::string>& paths) {
    StepFiles files;
    Index second = 1;
    for (const std::string& path : paths) {
        files.files.push_back({path, {1, second++ * 1'000'000'000, 0, 0}});
    }
    std::ranges::sort(files.files, {}, &StepFile::path);
    return files;
}

constexpr Index kSlack = 100'000'000;

Verdict verdict(const std::string& name, const std::vector<std::string>& paths,
                const std::vector<Tracker>& beside = {}) {
    return verdict_on(name, written(paths), beside, kSlack);
}

Tracker tracker(Index iteration, Index second = 1000) {
    return {"latest_checkpointed_iteration.txt", iteration, second * 1'000'000'000};
}

TEST(Signs, are_the_last_file_of_each_framework) {
    struct Case {
        std::string step;
        std::vector<std::string> files;  ///< the sign last
    };
    const std::vector<Case> cases = {
        {"step-5", {"__0_0.distcp", "__1_0.distcp", ".metadata"}},
        {"checkpoint-5", {"model.safetensors", "trainer_state.json"}},
        {"checkpoint-5", {"model.safetensors", "random_states_0.pkl"}},
        {"checkpoint-5",
         {"global_step5/mp_rank_00_model_states.pt", "latest", "trainer_state.json"}},
        {"checkpoint_5",
         {"pytorch_model_fsdp_0/__0_0.distcp", "pytorch_model_fsdp_0/.metadata",
          "random_states_0.pkl"}},
        {"checkpoint_5",
         {"random_states_0.pkl", "pytorch_model/mp_rank_00_model_states.pt", "latest"}},
        {"checkpoint-5",
         {"trainer_state.json", "iter_0000005/__0_0.distcp", "iter_0000005/.metadata",
          "latest_checkpointed_iteration.txt"}},
    };
    for (const auto& [step, files] : cases) {
        EXPECT_EQ(verdict(step, files).waits_for, "") << files.back();
        const std::vector<std::string> begun(files.begin(), files.end() - 1);
        const Verdict found = verdict(step, begun);
        const bool is_trainer = files.back() == "random_states_0.pkl";
        EXPECT_EQ(found.waits_for, is_trainer ? "trainer_state.json" : files.back());
        EXPECT_FALSE(found.is_unfinished);
    }
}

TEST(Signs, include_megatrons_own_index) {
    const std::vector<std::string> files = {"common.pt", "__0_0.distcp", ".metadata"};
    EXPECT_EQ(verdict("iter_0000005", files, {tracker(5)}).waits_for, "metadata.json");
}

TEST(Signs, include_what_verl_lists_last) {
    const std::vector<std::string> files = {"actor/model/dist_ckpt/__0_0.distcp",
                                            "actor/model/dist_ckpt/.metadata"};
    EXPECT_EQ(verdict("global_step_5", files, {tracker(5)}).waits_for, "actor/ckpt_contents.json");
}

TEST(Signs, are_trackers_that_name_the_step_or_a_later_one) {
    const std::vector<std::string> files = {"actor/model_world_size_1_rank_0.pt"};
    const Verdict absent = verdict("global_step_5", files);
    EXPECT_EQ(absent.waits_for, "latest_checkpointed_iteration.txt");
    EXPECT_FALSE(absent.is_unfinished);
    const Verdict earlier = verdict("global_step_5", files, {tracker(4)});
    EXPECT_EQ(earlier.waits_for, "latest_checkpointed_iteration.txt to name it");
    EXPECT_TRUE(earlier.is_unfinished);
    EXPECT_EQ(verdict("global_step_5", files, {tracker(5)}).waits_for, "");
    EXPECT_EQ(verdict("global_step_5", files, {tracker(6)}).waits_for, "");
    const std::vector<std::string> states = {"mp_rank_00_model_states.pt"};
    EXPECT_EQ(verdict("global_step5", states, {tracker(5)}).waits_for, "latest");
    EXPECT_EQ(verdict("global_step5", states, {{"latest", 5, 9'000'000'000}}).waits_for, "");
}

TEST(Signs, are_none_once_weights_are_written_behind_them) {
    EXPECT_FALSE(verdict("step-5", {"__0_0.distcp", ".metadata"}).is_old);
    EXPECT_TRUE(verdict("step-5", {".metadata", "__0_0.distcp"}).is_old);
    EXPECT_TRUE(
        verdict("global_step_5", {"a.json", "b.json", "actor/model.pt"}, {tracker(5, 2)}).is_old);
    // Other ranks' random states come whenever they come.
    EXPECT_FALSE(
        verdict("checkpoint-5", {"a.safetensors", "trainer_state.json", "rng_state_1.pth"}).is_old);
}

TEST(Signs, are_unknown_of_some_steps) {
    EXPECT_FALSE(verdict("step-5", {"model.safetensors"}).has_signs);
    EXPECT_TRUE(verdict("step-5", {"__0_0.distcp"}).has_signs);
}

TEST(Signs, are_missing_where_nothing_is_there) {
    EXPECT_TRUE(verdict("step-5", {}).is_unfinished);
}

}  // namespace
}  // namespace shardweld::app::watching
