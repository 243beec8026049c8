#include "publish/run_facts.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

RunFacts facts() {
    return {"0.1 (abc)",
            "1234",
            "auto",
            {"--dtype bf16", "--names hub"},
            {{"a.pt", {10, 1, 7, 70}, 99, false}, {"b\xff.pt", {20, 2, 8, 80}, 98, true}}};
}

std::string refusal(const RunFacts& now) {
    try {
        require_same(facts(), now, "/out/.m.shardweld-partial");
    } catch (const Error& error) {
        return std::string(name_of(error.code())) + ": " + error.full_text();
    }
    return "no error";
}

std::string expected(const std::string& code, const std::string& why) {
    return code + ": cannot continue the earlier merge: " + why +
           "; start from the beginning with --restart, "
           "which removes /out/.m.shardweld-partial";
}

TEST(RunFacts, come_back_from_the_header) {
    const test::TemporaryDirectory place;
    RunFacts written = facts();
    written.inputs[1].name = "b.pt";
    written.inputs[1].stamp.modified_ns = 1'700'000'000'123'456'789;
    write_header(written, place.path() / "journal", true);
    EXPECT_EQ(read_header(place.path() / "journal"), written);
}

TEST(RunFacts, of_a_damaged_header_are_refused) {
    const test::TemporaryDirectory place;
    fs::create_directory(place.path() / "journal");
    const fs::path path = place.path() / "journal" / "header.json";
    const auto answer = [&](const std::string& text) {
        std::ofstream(path) << text;
        try {
            (void)read_header(place.path() / "journal");
        } catch (const Error& error) {
            return std::string(name_of(error.code())) + ": " + error.full_text();
        }
        return std::string("no error");
    };
    for (
        const char* text :
        {"", "{", "[]", "3", "{}", R"({"schema": 2})", R"({"schema": "1", "tool": 3})",
         R"({"schema":2,"tool":"t","plan":"p","replicas":"auto","options":[1],"inputs":[]})",
         R"({"schema":2,"tool":"t","plan":"p","replicas":"auto","options":[],"inputs":[["a"]]})",
         R"({"schema":2,"tool":"t","plan":"p","replicas":"auto","options":[],"inputs":[["a","b",1,1,1,1,true]]})",
         R"({"schema":2,"tool":"t","plan":"p","replicas":"auto","options":[],"inputs":[["a",1,1e300,1,1,1,true]]})",
         R"({"schema":2,"tool":"t","plan":"p","replicas":"auto","options":[],"inputs":[["a",1e300,1,1,1,1,true]]})",
         R"({"schema":2,"tool":"t","plan":"p","replicas":"auto","options":[],"inputs":[["a",-1,1,1,1,1,true]]})"}) {
        const std::string said = answer(text);
        EXPECT_EQ(said.rfind("target: cannot continue the earlier merge: " + path.string(), 0), 0U)
            << text << said;
    }
    EXPECT_EQ(answer(R"({"schema": 3})"),
              "target: cannot continue the earlier merge: " + path.string() +
                  " is of another version of shardweld; start from the beginning with --restart, "
                  "which removes " +
                  place.path().string());
}

TEST(RequireSame, names_what_changed) {
    EXPECT_EQ(refusal(facts()), "no error");
    RunFacts now = facts();
    now.inputs[0].stamp.size = 11;
    EXPECT_EQ(
        refusal(now),
        expected("mismatch", "the input a.pt went from 10 to 11 bytes since this merge began"));
    now = facts();
    now.inputs[0].stamp.modified_ns = 0;
    EXPECT_EQ(refusal(now),
              expected("mismatch", "the input a.pt was written again since this merge began"));
    // Another file of the same size and time.
    now = facts();
    now.inputs[1].digest = 3;
    now.inputs[1].name = facts().inputs[1].name;
    EXPECT_NE(refusal(now).find("holds other tensors, or the same with other checksums"),
              std::string::npos);
    now = facts();
    now.inputs[0].stamp.inode = 71;
    EXPECT_EQ(refusal(now),
              expected("mismatch",
                       "the input a.pt may have been replaced, though its size and time are the "
                       "same (another file has its name, and it holds no checksums) "
                       "since this merge began"));
    now = facts();
    now.inputs[0].stamp.changed_ns = 9;
    EXPECT_NE(refusal(now).find("(its change time changed, and"), std::string::npos);
    now = facts();
    now.inputs[1].stamp.changed_ns = 5;
    now.inputs[1].stamp.inode = 5;
    EXPECT_EQ(refusal(now), "no error") << "its checksums say what it holds";
    now = facts();
    now.inputs.erase(now.inputs.begin());
    EXPECT_EQ(refusal(now), expected("mismatch", "the input a.pt is gone since this merge began"));
    now = facts();
    now.inputs.push_back({"c.pt", {1, 1}, 0, false});
    EXPECT_EQ(refusal(now), expected("mismatch", "the input c.pt is new since this merge began"));
    now = facts();
    now.tool = "0.2";
    EXPECT_EQ(refusal(now), expected("target", "shardweld 0.1 (abc) began, this is 0.2"));
}

TEST(RequireSame, explains_another_plan_by_the_options) {
    RunFacts now = facts();
    now.options = {"--names hub", "--dtype fp32"};
    EXPECT_EQ(refusal(now), "no error") << "options that change nothing do not matter";
    now.plan = "999";
    EXPECT_EQ(refusal(now),
              expected("mismatch", "it began with --dtype bf16, this is --dtype fp32"));
    now.options = {"--names hub"};
    EXPECT_EQ(refusal(now), expected("mismatch", "it began with --dtype bf16"));
    now.options = {"--dtype bf16", "--names hub", "--verl"};
    EXPECT_EQ(refusal(now), expected("mismatch", "it began without --verl"));
    now.options = facts().options;
    EXPECT_EQ(
        refusal(now),
        expected("mismatch",
                 "config.json, a recipe or the base model has changed since this merge began"));
}

TEST(RequireSame, takes_only_replicas_that_are_compared_as_strictly) {
    RunFacts now = facts();
    now.replicas = "trust";
    EXPECT_EQ(refusal(now), "no error");
    now.replicas = "verify";
    EXPECT_EQ(refusal(now),
              expected("mismatch", "it began with --replicas auto, this is --replicas verify"));
}

}  // namespace
}  // namespace shardweld::publish
