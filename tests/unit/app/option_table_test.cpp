// The option table: that its rows are complete, and that what is made of them agrees.
#include "app/settings/option_table.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "app/cli/parse_options.hpp"
#include "app/settings/job.hpp"
#include "app/settings/settle.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"
#include "support/error_text.hpp"

namespace shardweld::app {
namespace {

using WordList = std::vector<std::string>;

/// A merge that names no target gets one.
Job parsed_line(WordList words) {
    words.insert(words.begin(), "shardweld");
    try {
        return parse_options(words);
    } catch (const Error& error) {
        if (error.what() != std::string_view("no target is given")) {
            throw;
        }
    }
    words.insert(words.end(), {"--target_dir", "tmp"});
    return parse_options(words);
}

/// A value that inspect takes; the first of its words, where it has any.
std::string sample_of(const OptionRow& row) {
    const std::string kind(row.value);
    return !row.set.words.empty()          ? row.set.words.front()
           : kind == "N" || kind == "LIST" ? "2"
                                           : "sample";
}

std::string dashed(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

TEST(OptionTable, has_one_row_for_each_name_and_letter) {
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const OptionRow& row : option_rows()) {
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        EXPECT_TRUE(row.letter == 0 || letters.insert(row.letter).second) << row.name;
        EXPECT_EQ(find_option(row.name), &row);
        EXPECT_NE(row.commands & kEvery, 0U) << row.name;
        EXPECT_FALSE(row.help.empty()) << row.name;
        EXPECT_TRUE(row.letter == 0 || row.is_flag()) << "letters take no value: " << row.name;
        EXPECT_FALSE(is_later_option(row.name)) << row.name;
    }
    EXPECT_EQ(find_option("map"), nullptr);
}

TEST(OptionTable, tells_which_options_lead_to_another_output) {
    for (const OptionRow& row : option_rows()) {
        const bool is_output = row.touches == Touches::output || row.touches == Touches::form;
        if (row.group == "Model") {
            EXPECT_TRUE(is_output) << "an option about the model: " << row.name;
        }
        for (const char* group : {"Comparison", "Upload", "Execution", "Messages"}) {
            EXPECT_FALSE(row.group == group && is_output) << row.name;
        }
        EXPECT_TRUE(!is_output || row.is_taken_by(Command::merge)) << row.name;
        EXPECT_EQ(row.touches == Touches::form, row.set.spell != nullptr) << row.name;
        EXPECT_TRUE(row.touches != Touches::input || row.names_path()) << row.name;
        // Recipes are printed, and mounts taken away, at once and by one process.
        EXPECT_TRUE(row.touches != Touches::loudness ||
                    (row.commands | kRecipes | kUnmount) == kEvery)
            << row.name;
    }
}

TEST(OptionTable, has_what_a_merge_resumes_with) {
    const auto kept = [](const WordList& more) {
        WordList words{"merge", "--local_dir", "in"};
        words.insert(words.end(), more.begin(), more.end());
        return parsed_line(words).output_options;
    };
    EXPECT_EQ(kept({"--hf_config", "hf", "--target_dir", "out", "--overwrite", "--resume", "-q",
                    "--replicas", "trust", "--memory_limit", "1GB", "--report", "r", "--strict"}),
              WordList{});
    EXPECT_EQ(kept({"--max_shard_size", "1GB", "--dtype", "bf16", "--is_value_model", "--base",
                    "model", "--include", "a b\n--lora fold"}),
              (WordList{"--base", "--include a b\n--lora fold", "--is_value_model true",
                        "--max_shard_size 1GB"}));
}

TEST(OptionTable, spells_the_form_of_each_output_alike) {
    const Job job = parsed_line({"merge", "in", "out", "--dtype", "torch.bfloat16", "--vocab_size",
                                 "7", "--also", "b:fp8-block", "--also", "c:dcp:world=2"});
    const std::vector<WordList> expected = {
        {"--dtype bf16", "--vocab_size 7"},
        {"--dtype bf16", "--quantize fp8-block", "--vocab_size 7"},
        {"--dtype bf16", "--to dcp:world=2", "--vocab_size 7"}};
    for (std::size_t at = 0; at < expected.size(); ++at) {
        EXPECT_EQ(output_options(job, job.outputs.at(at)), expected[at]);
    }
}

TEST(OptionTable, has_what_ranks_share) {
    for (const OptionRow& row : option_rows()) {
        if (!row.is_taken_by(Command::inspect) || row.name == "local_dir" || row.name == "help") {
            continue;
        }
        WordList words{"inspect", "in", "--" + dashed(row.name)};
        if (!row.is_flag()) {
            words.push_back(sample_of(row));
        }
        if (row.name.starts_with("mesh_")) {
            const bool is_shape = row.name == "mesh_shape";
            words.insert(words.end(), {is_shape ? "--mesh_dim_names" : "--mesh_shape", "1"});
        }
        const std::string shared = parsed_line(words).shared;
        EXPECT_EQ(shared.find("\n--" + std::string(row.name)) == std::string::npos,
                  row.touches == Touches::loudness)
            << row.name;
        EXPECT_EQ(shared.find("sample") != std::string::npos,
                  !row.names_path() && sample_of(row) == "sample" && !row.is_flag())
            << row.name;
    }
}

TEST(OptionTable, names_every_word_of_a_choice_in_its_help) {
    int n_choices = 0;
    for (const OptionRow& row : option_rows()) {
        Job job;
        const std::string error = row.is_flag() ? "" : test::error_text([&] {
            row.set.put({row.name, "?"}, job);
        });
        n_choices += error.find(" (choose ") != std::string::npos ? 1 : 0;
        for (const std::string& word : row.set.words) {
            EXPECT_NE(row.help.find(word), std::string_view::npos) << row.name << ": " << word;
        }
    }
    EXPECT_GE(n_choices, 10);
}

using NameSet = std::set<std::string, std::less<>>;

/// The names in a text, each behind `before` and up to `after`.
NameSet names_between(std::string_view text, std::string_view before, std::string_view after) {
    NameSet names;
    for (std::size_t at = text.find(before); at != std::string_view::npos;
         at = text.find(before, at)) {
        at += before.size();
        names.emplace(text.substr(at, text.find_first_of(after, at) - at));
    }
    return names;
}

TEST(OptionTable, is_what_help_lists) {
    for (const CommandRow& command : command_rows()) {
        const std::string help = help_text(std::string(command.name));
        NameSet listed;
        NameSet with_letter;
        for (const OptionRow& row : option_rows()) {
            if (row.is_in_help_of(command) && !row.group.empty()) {
                (row.letter == 0 ? listed : with_letter).emplace(row.name);
            }
        }
        EXPECT_EQ(names_between(help, "\n      --", " \n"), listed) << command.name;
        EXPECT_EQ(names_between(help, ", --", " \n"), with_letter) << command.name;
    }
}

TEST(OptionTable, says_of_an_option_what_is_meant_for_the_command) {
    const std::string merge = help_text("merge");
    EXPECT_NE(merge.find("a step, iteration or shard directory\n"), std::string::npos) << merge;
    EXPECT_NE(merge.find("write the report of the run to FILE"), std::string::npos) << merge;
    EXPECT_NE(help_text("verify").find(" DIR     the model that was written\n"), std::string::npos);
    EXPECT_NE(help_text("diff").find("the model that was quantised\n"), std::string::npos);
    for (const CommandRow& command : command_rows()) {
        for (const CommandRow& other : command_rows()) {
            EXPECT_EQ(help_text(std::string(command.name)).find(std::string(other.name) + ": the "),
                      std::string::npos)
                << command.name;
        }
    }
}

TEST(OptionTable, has_at_most_ten_usual_options_of_each_command) {
    for (const CommandRow& command : command_rows()) {
        const auto usual = usual_options(command);
        const auto listed = listed_options(command);
        EXPECT_EQ(usual.size(), std::min<std::size_t>(listed.size(), 10)) << command.name;
        for (const OptionRow* row : usual) {
            EXPECT_EQ(std::count(listed.begin(), listed.end(), row), 1) << command.name;
        }
        EXPECT_EQ(parsed_line({std::string(command.name), "-h"}).help, HelpForm::brief);
        EXPECT_EQ(parsed_line({std::string(command.name), "--help"}).help, HelpForm::whole);
        const std::string name(command.name);
        EXPECT_TRUE(listed.size() == usual.size() ||
                    help_text(name, HelpForm::brief).size() < help_text(name).size())
            << name;
    }
}

TEST(HelpJson, has_every_exit_code) {
    const std::string told = help_json();
    for (int code = 0; code <= 255; ++code) {
        const std::string_view name = name_of(static_cast<ErrorCode>(code));
        const bool is_code = name != "internal" || code == static_cast<int>(ErrorCode::internal);
        const bool is_told =
            told.find("\"code\": " + std::to_string(code) + ",") != std::string::npos;
        EXPECT_EQ(is_told, is_code) << code;
    }
}

TEST(OptionTable, suggests_each_option_that_lacks_its_last_letter) {
    for (const CommandRow& command : command_rows()) {
        for (const OptionRow& row : option_rows()) {
            const std::string typed = "--" + std::string(row.name.substr(0, row.name.size() - 1));
            if (!row.is_taken_by(command.command) || row.name.size() < 5) {
                continue;
            }
            const std::string error = test::error_text([&] {
                parsed_line({std::string(command.name), typed});
            });
            EXPECT_NE(error.find("did you mean --" + std::string(row.name) + "?"),
                      std::string::npos)
                << command.name << ": " << error;
        }
    }
}

TEST(CommandTable, is_named_whole_where_a_command_is_missing) {
    const std::string none = test::error_text([] { parsed_line({}); });
    const std::string strange = test::error_text([] { parsed_line({"zzzzzz"}); });
    for (const CommandRow& row : command_rows()) {
        const std::string name(row.name);
        EXPECT_NE(none.find("\n  " + name + " "), std::string::npos) << none;
        EXPECT_NE(strange.find(" " + name), std::string::npos) << strange;
    }
}

TEST(MergeWords, hand_options_on_to_the_merge) {
    const WordList words =
        parsed_line({"plan", "--json", "--local_dir", "in", "--target_dir", "/out", "--dtype",
                     "bf16", "--exclude=-x", "--check_crc", "--trace", "a", "--resume",
                     "--overwrite", "--ranks", "5", "-q"})
            .merge_words;
    const std::string in = fs::absolute("in").string();
    EXPECT_EQ(words, (WordList{"--local_dir", in, "--check_crc", "before", "--target_dir", "/out",
                               "--overwrite", "--dtype", "bf16", "--exclude=-x", "--trace", "a",
                               "--quiet"}));
    // For people as it was typed.
    EXPECT_EQ(parsed_line({"plan", "--local_dir", "in"}).merge_words,
              (WordList{"--local_dir", "in", "--target_dir", "OUT"}));
}

}  // namespace
}  // namespace shardweld::app
