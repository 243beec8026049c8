#include "formats/shared/iteration_directories.hpp"

#include "formats/recognise.hpp"

#include "scratch.hpp"

namespace shardweld::formats {
namespace {

std::optional<StepChoice> choose(const Scratch& scratch,
                                 std::optional<Index> wanted = std::nullopt) {
    return choose_step(scratch.path(), list_directory(scratch.path()), wanted);
}

TEST(IterationDirectory, is_parsed_from_every_trainers_name) {
    EXPECT_EQ(parse_step("iter_0000010")->iteration, 10);
    EXPECT_EQ(parse_step("iter_12345678")->iteration, 12345678);
    EXPECT_EQ(parse_step("global_step_7")->iteration, 7);
    EXPECT_EQ(parse_step("global_steps_7")->iteration, 7);
    EXPECT_EQ(parse_step("global_step7")->iteration, 7);
    EXPECT_EQ(parse_step("checkpoint-500")->iteration, 500);
    EXPECT_EQ(parse_step("step-1000")->iteration, 1000);
    // accelerate and OLMo write these.
    for (const char* name : {"checkpoint_12", "step_12", "step12"}) {
        EXPECT_EQ(parse_step(name)->iteration, 12) << name;
    }
    EXPECT_EQ(parse_step("release")->iteration, std::nullopt);
    for (const char* name : {"iter_", "iter_x", "iter_-1", "global_step", "Release", "iter_1.bak",
                             "step-", "checkpoint-best"}) {
        EXPECT_FALSE(parse_step(name)) << name;
    }
}

TEST(IterationDirectory, is_what_the_tracker_names) {
    const Scratch scratch;
    scratch.directory("iter_0000010");
    scratch.directory("iter_0000020");
    scratch.directory("release");
    for (const auto& [text, directory] : std::vector<std::pair<std::string, std::string>>{
             {"20", "iter_0000020"}, {" 10 \n", "iter_0000010"}, {"release\n", "release"}}) {
        scratch.file(kTrackerFile, text);
        EXPECT_EQ(choose(scratch)->directory, directory);
        EXPECT_EQ(choose(scratch)->note,
                  directory != "iter_0000010"
                      ? ""
                      : "latest_checkpointed_iteration.txt names iteration 10, not the later "
                        "iter_0000020: that save was interrupted, or the run began again from an "
                        "earlier one");
    }
}

TEST(IterationDirectory, is_compared_as_a_number) {
    const Scratch scratch;
    scratch.directory("iter_10");
    scratch.directory("iter_0000009");
    scratch.file(kTrackerFile, "10");
    EXPECT_EQ(choose(scratch)->directory, "iter_10");
    EXPECT_EQ(choose(scratch, 9)->directory, "iter_0000009");
}

TEST(IterationDirectory, that_two_directories_bear_is_neither) {
    const Scratch scratch;
    scratch.directory("iter_10");
    scratch.directory("iter_0000009");
    scratch.directory("iter_0000010");
    scratch.file(kTrackerFile, "10");
    EXPECT_EQ(choose(scratch, 9)->directory, "iter_0000009");
    expect_error(ErrorCode::mismatch, "iter_0000010 and iter_10", [&] { choose(scratch); });
    expect_error(ErrorCode::mismatch, "have the same number", [&] { choose(scratch, 10); });
}

TEST(IterationDirectory, is_stated_by_the_directory_and_by_a_tracker_in_it) {
    const Scratch scratch;
    for (const char* directory : {"iter_0000010", "global_step_10/actor/model/dist_ckpt",
                                  "global_step_10/critic/dist_ckpt"}) {
        fs::create_directories(scratch.path() / directory);
        const auto stated = steps_stated(scratch.path() / directory);
        ASSERT_EQ(stated.size(), 1U) << directory;
        EXPECT_EQ(stated.front().save, (catalogue::FileAssertion::Values{{"iteration", "10"}}))
            << directory;
        EXPECT_FALSE(stated.front().is_inner);
    }
    fs::create_directories(scratch.path() / "step-3/run/release");
    EXPECT_TRUE(steps_stated(scratch.path() / "step-3/run/release").empty());
    scratch.file("iter_0000010/" + std::string(kTrackerFile), "20\n");
    const auto both = steps_stated(scratch.path() / "iter_0000010");
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(both.back().file, kTrackerFile);
    EXPECT_EQ(both.back().save, (catalogue::FileAssertion::Values{{"iteration", "20"}}));
}

TEST(IterationDirectory, asked_for_overrides_the_tracker) {
    const Scratch scratch;
    scratch.directory("global_step_5");
    scratch.directory("global_step_6");
    scratch.file(kTrackerFile, "6");
    EXPECT_EQ(choose(scratch, 5)->directory, "global_step_5");
    expect_error(ErrorCode::not_found, "--iteration 7 is not in", [&] { choose(scratch, 7); });
    expect_error(ErrorCode::not_found,
                 "; choose one with --iteration: global_step_5, global_step_6",
                 [&] { choose(scratch, 7); });
}

TEST(IterationDirectory, is_the_only_one_when_the_tracker_is_missing_or_garbled) {
    const Scratch scratch;
    EXPECT_FALSE(choose(scratch));
    scratch.directory("iter_0000010");
    EXPECT_EQ(choose(scratch)->directory, "iter_0000010");
    EXPECT_EQ(choose(scratch)->note,
              "latest_checkpointed_iteration.txt is missing: using the only iteration, "
              "iter_0000010");
    for (const std::string& garbage :
         {std::string(), std::string("../../etc"), std::string("10 20"), std::string("-10"),
          std::string("10\0x", 4), std::string("0x10"), std::string("99999999999999999999999")}) {
        scratch.file(kTrackerFile, garbage);
        EXPECT_EQ(choose(scratch)->directory, "iter_0000010") << garbage;
        EXPECT_EQ(choose(scratch)->note,
                  "latest_checkpointed_iteration.txt is not a number or `release`: using the only "
                  "iteration, iter_0000010");
    }
    scratch.file(kTrackerFile, std::string(10000, '1'));
    EXPECT_EQ(choose(scratch)->directory, "iter_0000010");
}

TEST(IterationDirectory, has_to_be_chosen_among_several) {
    const Scratch scratch;
    scratch.directory("iter_0000009");
    scratch.directory("iter_0000010");
    expect_error(ErrorCode::usage,
                 "latest_checkpointed_iteration.txt is missing; choose one with --iteration: "
                 "iter_0000009, iter_0000010",
                 [&] { choose(scratch); });
}

TEST(IterationDirectory, is_the_newest_where_trainers_write_no_tracker) {
    for (const auto& [before, after] :
         std::vector<std::pair<std::string, std::string>>{{"checkpoint-", ""},
                                                          {"step-", ""},
                                                          {"epoch=0-step=", ".ckpt"},
                                                          {"llama--loss=1-step=", "-last"}}) {
        const Scratch scratch;
        scratch.directory(before + "9" + after);
        EXPECT_EQ(choose(scratch)->directory, before + "9" + after);
        EXPECT_EQ(choose(scratch)->note, "");
        scratch.directory(before + "10" + after);
        EXPECT_EQ(choose(scratch)->directory, before + "10" + after);
        EXPECT_EQ(choose(scratch)->note,
                  "took " + before + "10" + after + ", the newest of 2 checkpoints in " +
                      scratch.path().string() + ": --iteration N takes another");
        EXPECT_EQ(choose(scratch, 9)->directory, before + "9" + after);
        // Another trainer's save beside them: which one is meant?
        scratch.directory("iter_0000003");
        expect_error(ErrorCode::usage, "choose one with --iteration", [&] { choose(scratch); });
    }
    const Scratch twins;
    twins.directory("checkpoint-10");
    twins.directory("checkpoint_10");
    expect_error(ErrorCode::mismatch, "have the same number", [&] { choose(twins); });
    EXPECT_FALSE(parse_step("misstep=3"));
    EXPECT_FALSE(parse_step("epoch=0-step="));
}

TEST(IterationDirectory, named_by_the_tracker_has_to_be_there) {
    const Scratch scratch;
    scratch.directory("iter_0000010");
    scratch.file(kTrackerFile, "20");
    expect_error(
        ErrorCode::not_found,
        "names iteration 20, which is not there; choose one with --iteration: iter_0000010",
        [&] { choose(scratch); });
    scratch.file(kTrackerFile, "release");
    expect_error(ErrorCode::not_found, "names release, which is not there",
                 [&] { choose(scratch); });
}

TEST(IterationDirectory, of_a_tracker_alone_is_not_found) {
    const Scratch scratch;
    scratch.file(kTrackerFile, "what");
    expect_error(ErrorCode::not_found,
                 "and no iteration is there; copy the directory of the iteration too: iter_*, ",
                 [&] { choose(scratch); });
    scratch.file(kTrackerFile, "20");
    expect_error(ErrorCode::not_found,
                 "names iteration 20, which is not there; copy the directory of the iteration too: "
                 "iter_0000020, which has .metadata and *.distcp or mp_rank_*/model_optim_rng.pt; "
                 "verl's is global_step_20",
                 [&] { choose(scratch); });
    expect_error(ErrorCode::not_found, "too: iter_0000007, ", [&] { choose(scratch, 7); });
}

TEST(IterationDirectory, of_an_epoch_is_the_one_that_a_pointer_names) {
    EXPECT_EQ(parse_step("epoch_1_step_19")->iteration, 19);
    for (const char* name :
         {"epoch_1", "epoch_x_step_19", "epoch_1_step_", "epoch_1_step_19.bak"}) {
        EXPECT_FALSE(parse_step(name)) << name;
    }
    const Scratch scratch;
    scratch.directory("epoch_0_step_9");
    scratch.directory("epoch_1_step_19");
    EXPECT_EQ(choose(scratch)->directory, "epoch_1_step_19");
    for (const char* file : {"LATEST", "LATEST.txt"}) {
        scratch.file(file, "epoch_0_step_9");
        EXPECT_EQ(choose(scratch)->directory, "epoch_0_step_9") << file;
        EXPECT_EQ(named_directory(scratch.path() / file), scratch.path() / "epoch_0_step_9");
        fs::remove(scratch.path() / file);
    }
    fs::create_directory_symlink("epoch_0_step_9", scratch.path() / "LATEST");
    EXPECT_EQ(choose(scratch)->directory, "epoch_0_step_9");
    EXPECT_EQ(choose(scratch, 19)->directory, "epoch_1_step_19");
    EXPECT_EQ(named_directory(scratch.path() / "LATEST"), scratch.path() / "LATEST");
    scratch.file("LOWEST_VAL.txt", "../epoch_0_step_9");
    expect_error(ErrorCode::corrupt, "which leaves the directory",
                 [&] { named_directory(scratch.path() / "LOWEST_VAL.txt"); });
    scratch.file(kTrackerFile, "9");
    EXPECT_EQ(named_directory(scratch.path() / kTrackerFile), scratch.path());
}

TEST(ChooseStep, follows_the_tag_files_of_deepspeed) {
    const Scratch scratch;
    scratch.directory("global_step2");
    scratch.directory("global_step10");
    scratch.directory("best");
    const auto chosen = [&](std::optional<Index> wanted = std::nullopt) {
        return choose_step(scratch.path(), list_directory(scratch.path()), wanted)
            .value_or(StepChoice{})
            .directory;
    };
    expect_error(ErrorCode::usage, "global_step2, global_step10", [&] { chosen(); });
    scratch.file("latest_universal", "global_step10");
    EXPECT_EQ(chosen(), "global_step10");
    scratch.file("latest", "best\n");
    EXPECT_EQ(chosen(), "best");
    EXPECT_EQ(chosen(2), "global_step2");
    scratch.file("latest", "global_step3");
    expect_error(ErrorCode::not_found, "names global_step3, which is not there", [&] { chosen(); });
    scratch.file("latest", std::string("global_step2\0", 13));
    expect_error(ErrorCode::corrupt, "names \"global_step2\\x00\", which holds a NUL",
                 [&] { chosen(); });
    scratch.file("latest", " \n");
    expect_error(ErrorCode::corrupt, "latest names nothing: it is empty", [&] { chosen(); });
    for (const std::string tag : {"../global_step2", "/etc", "best/.."}) {
        scratch.file("latest", tag);
        expect_error(ErrorCode::corrupt, "\", which leaves the directory", [&] { chosen(); });
    }
}

}  // namespace
}  // namespace shardweld::formats
