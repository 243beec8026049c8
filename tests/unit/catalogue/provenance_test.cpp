#include "catalogue/provenance.hpp"

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld::catalogue {
namespace {

const std::vector<File> kFiles = {{"mp_rank_00/a.pt", 1}, {"mp_rank_01/a.pt", 1}};

FileAssertion name_says(std::size_t file, const std::string& tp) {
    return {kFiles[file].path, "its name", {{"tp", tp}}, {}, false};
}

FileAssertion args_say(std::size_t file, const std::string& tp, const std::string& iteration) {
    return {kFiles[file].path, "args", {{"tp", tp}}, {{"iteration", iteration}}, true};
}

std::string refusal(const std::vector<FileAssertion>& statements) {
    try {
        compare_statements(kFiles, statements);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        return error.full_text();
    }
    return "";
}

TEST(Provenance, is_proved_when_every_file_says_part_and_save) {
    const auto proved =
        compare_statements(kFiles, std::vector{name_says(0, "0"), name_says(1, "1"),
                                               args_say(0, "0", "10"), args_say(1, "1", "10")});
    EXPECT_EQ(proved.standing, Standing::proved);
    EXPECT_EQ(text_of(proved), "proved: args in 2 files (iteration, tp); its name in 2 files (tp)");
}

TEST(Provenance, is_consistent_when_only_one_of_both_is_said) {
    auto first = args_say(0, "0", "10");
    auto second = args_say(1, "1", "10");
    first.rank.clear();
    second.rank.clear();
    first.likeness = second.likeness = "like";
    const auto found = compare_statements(kFiles, std::vector{name_says(0, "0"), first, second});
    EXPECT_EQ(found.standing, Standing::consistent);
    EXPECT_EQ(text_of(found),
              "consistent: args in 2 files (iteration); its name in mp_rank_00/a.pt (tp); 2 of 2 "
              "files do not say which part they hold; 2 files have the same layout as others; "
              "swapping them would go unnoticed");
}

TEST(Provenance, is_unknown_where_names_alone_tell) {
    const auto found =
        compare_statements(kFiles, std::vector{name_says(0, "0"), name_says(1, "1")});
    EXPECT_EQ(found.standing, Standing::unknown);
    EXPECT_EQ(compare_statements(kFiles, {}).standing, Standing::unknown);
}

TEST(Provenance, is_consistent_where_a_state_file_and_a_name_agree) {
    const FileAssertion state{"common.pt", "its state", {}, {{"iteration", "10"}}, true};
    const FileAssertion name{
        "iter_0000010", "the directory's name", {}, {{"iteration", "10"}}, false};
    EXPECT_EQ(compare_statements(kFiles, std::vector{state, name}).standing, Standing::consistent);
    // One word alone agrees with nothing, and names with each other tell nothing.
    EXPECT_EQ(compare_statements(kFiles, std::vector{state}).standing, Standing::unknown);
    const FileAssertion tracker{"latest", "the tracker", {}, {{"iteration", "10"}}, false};
    EXPECT_EQ(compare_statements(kFiles, std::vector{tracker, name}).standing, Standing::unknown);
}

TEST(Provenance, of_a_single_file_needs_no_part) {
    const std::vector<File> file = {{"a.pt", 1}};
    const std::vector<FileAssertion> said = {{"a.pt", "args", {}, {{"iteration", "3"}}, true}};
    EXPECT_EQ(compare_statements(file, said).standing, Standing::proved);
}

TEST(Provenance, refuses_a_file_in_anothers_place) {
    const std::string text = refusal(
        {name_says(0, "0"), name_says(1, "1"), args_say(0, "1", "10"), args_say(1, "0", "10")});
    EXPECT_NE(text.find("tp is 0 in mp_rank_00/a.pt (its name) but 1 in mp_rank_00/a.pt (args)"),
              std::string::npos)
        << text;
}

TEST(Provenance, refuses_files_of_two_saves) {
    const std::string text = refusal({args_say(0, "0", "10"), args_say(1, "1", "20")});
    EXPECT_NE(text.find("iteration is 10 in mp_rank_00/a.pt (args) but 20 in mp_rank_01/a.pt "
                        "(args); the files are not from one save"),
              std::string::npos)
        << text;
}

TEST(Provenance, refuses_a_file_that_is_there_twice) {
    const std::string text = refusal({args_say(0, "0", "10"), args_say(1, "0", "10")});
    EXPECT_NE(text.find("mp_rank_00/a.pt and mp_rank_01/a.pt are tp 0"), std::string::npos) << text;
}

}  // namespace
}  // namespace shardweld::catalogue
