#include "app/settings/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

#include "app/cli/parse_options.hpp"
#include "app/settings/nearest.hpp"
#include "app/settings/option_table.hpp"
#include "app/settings/settle.hpp"
#include "app/settings/typed_words.hpp"
#include "app/survey/input.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"
#include "support/error_text.hpp"

namespace shardweld::app {
namespace {

using Words = std::vector<std::string>;

/// A merge that names no target gets one.
Options parsed(Words words) {
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

/// What a command line means, however it is written.
Options meaning(const Words& words) {
    Options options = parsed(words);
    options.arguments.clear();
    return options;
}

std::string refusal(const Words& words) {
    return test::error_text([&] { parsed(words); });
}

TEST(ParseOptions, has_the_defaults_of_verl_where_it_has_any) {
    const Options options = parsed({"merge", "--local_dir", "in"});
    EXPECT_EQ(options.command, Command::merge);
    EXPECT_EQ(options.local_dir, "in");
    EXPECT_EQ(options.target_dir, "tmp");
    EXPECT_EQ(options.backend, "auto");
    EXPECT_EQ(options.max_shard_size, 5'000'000'000U);
    EXPECT_EQ(options.memory_limit, std::nullopt);
    EXPECT_EQ(options.message_limit, 0U);
    EXPECT_EQ(options.dtype, std::nullopt);
    EXPECT_EQ(options.hf_config, std::nullopt);
    EXPECT_EQ(options.iteration, std::nullopt);
    EXPECT_EQ(options.strategy, plan::Strategy::automatic);
    EXPECT_EQ(options.replicas, plan::Replicas::automatic);
    EXPECT_EQ(options.max_open, 64U);
    EXPECT_EQ(options.log_level, LogLevel::info);
    EXPECT_TRUE(options.sync);
    EXPECT_FALSE(options.overwrite || options.strict || options.json || options.is_quiet ||
                 options.tie_word_embedding || options.is_value_model);
}

TEST(ParseOptions, keeps_a_report_in_the_output_unless_told_otherwise) {
    const Options plain = parsed({"merge", "in", "out", "--also", "fp32:fp32"});
    EXPECT_TRUE(plain.keeps_report);
    EXPECT_EQ(plain.report, std::nullopt);
    for (const OutputRequest& output : output_requests(plain)) {
        EXPECT_TRUE(output.keeps_report && output.is_reported());
    }
    EXPECT_TRUE(parsed({"plan", "in"}).keeps_report);
    const Options given = parsed({"merge", "in", "out", "--report", "r.json"});
    EXPECT_TRUE(!given.keeps_report && given.report == fs::path("r.json"));
    const Options none = parsed({"merge", "in", "out", "--report", "none"});
    EXPECT_FALSE(none.keeps_report || none.report || output_requests(none).front().is_reported());
    EXPECT_NE(none.shared, given.shared);
    const Words words = parsed({"plan", "in", "--json", "--report", "none"}).merge_words;
    EXPECT_EQ(std::ranges::count(words, "none"), 1);  // no path
    EXPECT_FALSE(parsed({"merge", "in", "out", "--verl"}).keeps_report);
    EXPECT_FALSE(parsed({"verify", "out"}).keeps_report);
}

TEST(ParseOptions, takes_the_forms_of_other_outputs) {
    const auto also = [](const std::string& text) {
        return parsed({"merge", "in", "out", "--to", "dcp", "--also", text}).also.front();
    };
    EXPECT_EQ(also("a:torch_dist").form, "torch_dist");
    EXPECT_EQ(also("a:b:legacy:tp=2,layout=Et|L").form, "legacy:tp=2,layout=Et|L");
    EXPECT_EQ(also("a:b:legacy:tp=2,layout=Et|L").directory, "a:b");
    EXPECT_EQ(also("a:hf"), also("a"));
    EXPECT_EQ(also("a:fp8-block").quantise, Encoding::fp8_block);
    const auto outputs = output_requests(
        parsed({"merge", "in", "out", "--dtype", "bf16", "--also", "a:fsdp:world=2"}));
    EXPECT_FALSE(outputs[0].is_training());
    EXPECT_TRUE(outputs[1].is_training() && outputs[1].dtype == DType::bf16);
}

TEST(ParseOptions, tells_what_ranks_must_share) {
    const auto shared = [](const Words& more) {
        Words words{"merge", "--local_dir", "in"};
        words.insert(words.end(), more.begin(), more.end());
        return parsed(words).shared;
    };
    const std::string plain = shared({});
    EXPECT_EQ(parsed({"merge", "--local-dir=elsewhere"}).shared, plain);
    EXPECT_EQ(shared({"-q"}), plain);
    EXPECT_EQ(shared({"-v"}), plain);
    EXPECT_EQ(shared({"--base", "a"}), shared({"--base", "b"}));
    EXPECT_NE(shared({"--base", "a"}), plain);
    EXPECT_NE(shared({"--lora", "fold"}), plain);
    EXPECT_NE(shared({"--lora", "fold"}), shared({"--lora", "drop"}));
    EXPECT_NE(shared({"--trace", "a"}), shared({"--trace", "b"}));
    EXPECT_NE(parsed({"verify", "a"}).shared, parsed({"diff", "a", "b"}).shared);
}

TEST(ParseOptions, reads_every_option_with_either_dash) {
    const Options options = parsed({"merge",
                                    "--local-dir=in",
                                    "--target-dir",
                                    "out",
                                    "--backend",
                                    "megatron",
                                    "--hf-config",
                                    "hf",
                                    "--iteration",
                                    "12",
                                    "--role=critic",
                                    "--recipe",
                                    "my.recipe",
                                    "--max-open=3",
                                    "--overwrite",
                                    "--dtype",
                                    "bf16",
                                    "--max_shard-size",
                                    "2GiB",
                                    "--no-fsync",
                                    "--report",
                                    "r.json",
                                    "--tie-word-embedding",
                                    "--is-value-model",
                                    "--strategy",
                                    "collective",
                                    "--replicas",
                                    "verify",
                                    "--memory-limit",
                                    "64M",
                                    "--message_limit=64",
                                    "--strict",
                                    "-q"});
    EXPECT_EQ(options.local_dir, "in");
    EXPECT_EQ(options.target_dir, "out");
    EXPECT_EQ(options.backend, "megatron");
    EXPECT_EQ(options.hf_config, fs::path("hf"));
    EXPECT_EQ(options.iteration, 12);
    EXPECT_EQ(options.role, "critic");
    EXPECT_EQ(options.recipe, fs::path("my.recipe"));
    EXPECT_EQ(options.max_open, 3U);
    EXPECT_TRUE(options.overwrite);
    EXPECT_EQ(options.dtype, DType::bf16);
    EXPECT_EQ(options.max_shard_size, Bytes{2} << 30U);
    EXPECT_FALSE(options.sync);
    EXPECT_EQ(options.report, fs::path("r.json"));
    EXPECT_TRUE(options.tie_word_embedding);
    EXPECT_TRUE(options.is_value_model);
    EXPECT_EQ(options.strategy, plan::Strategy::collective);
    EXPECT_EQ(options.replicas, plan::Replicas::verify);
    EXPECT_EQ(options.memory_limit, Bytes{64} << 20U);
    EXPECT_EQ(options.message_limit, 64U);
    EXPECT_TRUE(options.strict);
    EXPECT_TRUE(options.is_quiet);
    EXPECT_EQ(options.log_level, LogLevel::error);
}

TEST(ParseOptions, takes_all_directories_of_an_average_and_the_last_as_the_target) {
    const Options three = parsed({"merge", "--average", "a", "b", "c", "out"});
    EXPECT_EQ(three.local_dir, "a");
    EXPECT_EQ(three.averaging.others, (std::vector<fs::path>{"b", "c"}));
    EXPECT_EQ(three.target_dir, "out");
    const Options named = parsed({"merge", "--average", "a", "b", "--target_dir", "out"});
    EXPECT_EQ(named.averaging.others, (std::vector<fs::path>{"b"}));
    EXPECT_EQ(named.target_dir, "out");
    EXPECT_EQ(parsed({"plan", "--average", "a", "b"}).averaging.others.size(), 1U);
    const Options test = parsed({"test", "--average", "a", "b", "model"});
    EXPECT_EQ(test.reference, "model");
    EXPECT_EQ(parsed({"merge", "--delta", "base", "--scale", "0.5", "a", "out"}).local_dir, "a");
    // A job script, which is made of plan's JSON, names them all.
    const Options job = parsed({"plan", "--average", "a", "b", "--target_dir", "out", "--json"});
    EXPECT_EQ(std::ranges::count(job.merge_words, fs::absolute("b").string()), 1);
}

TEST(ParseOptions, weighs_checkpoints_in_fp32) {
    const auto factors = [](Words words) {
        words.insert(words.begin(), {"plan", "a", "b", "c"});
        return parsed(words).averaging.factors();
    };
    EXPECT_EQ(factors({"--average"}), (std::vector<float>(3, 1.0F / 3.0F)));
    EXPECT_EQ(factors({"--average", "--average_weights", "1,1,2"}),
              (std::vector<float>{0.25F, 0.25F, 0.5F}));
    EXPECT_EQ(factors({"--average", "--average_weights", "0.2,-0.5,2"}),
              (std::vector<float>{static_cast<float>(0.2 / 1.7), static_cast<float>(-0.5 / 1.7),
                                  static_cast<float>(2 / 1.7)}));
    // These add up to 1 but for the rounding of decimal fractions.
    EXPECT_EQ(factors({"--average", "--average_weights", "0.7,0.2,0.1"}),
              (std::vector<float>{0.7F, 0.2F, 0.1F}));
    EXPECT_EQ(factors({"--average", "--average_decay", "0.5"}),
              (std::vector<float>{static_cast<float>(0.25 / 1.75), static_cast<float>(0.5 / 1.75),
                                  static_cast<float>(1 / 1.75)}));
    EXPECT_EQ(factors({"--delta", "base", "--scale", "0.3"}), (std::vector<float>(3, 0.3F)));
}

TEST(ParseOptions, says_what_checkpoints_weigh) {
    const auto text = [](Words words) {
        words.insert(words.begin(), {"plan", "a", "b"});
        return parsed(words).averaging.text();
    };
    EXPECT_EQ(text({"--average"}), "average of 2: 0.5, 0.5");
    EXPECT_EQ(text({"--average", "--average_weights", "1,1"}),
              "average of 2: 0.5, 0.5 (--average_weights 1,1, divided by their sum)");
    EXPECT_EQ(text({"--average", "--average_weights", "0.2,0.8"}), "average of 2: 0.2, 0.8");
    EXPECT_EQ(text({"--delta", "base", "--scale", "0.3"}),
              "the base plus 2 differences, times 0.3, 0.3");
    for (const char* const weights : {"1,-1", "0,0", "-1,-2"}) {
        EXPECT_EQ(refusal({"plan", "a", "b", "--average", "--average_weights", weights})
                      .find("usage: --average_weights " + std::string(weights) + " add up to"),
                  0U);
    }
}

TEST(ParseOptions, keeps_commas_dashes_and_equals_signs_in_values) {
    EXPECT_EQ(parsed({"merge", "--local_dir=a=b,c-d_e"}).local_dir, "a=b,c-d_e");
    EXPECT_EQ(parsed({"merge", "--local_dir", "-odd"}).local_dir, "-odd");
    EXPECT_EQ(parsed({"inspect", "a,b"}).local_dir, "a,b");
    EXPECT_EQ(parsed({"inspect", "--", "--odd"}).local_dir, "--odd");
}

TEST(ParseOptions, reads_arguments_of_any_length) {
    const std::string name(200'000, 'a');
    EXPECT_EQ(parsed({"merge", "--local_dir=" + name}).local_dir, name);
    EXPECT_EQ(parsed({"inspect", name}).local_dir, name);
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "-" + name}).substr(0, 6), "usage:");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--include", std::string(200'000, '(')})
                  .substr(0, 20),
              "usage: --include (((");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--exclude", "a(?=b)"}),
              "usage: --exclude a(?=b) is not a regular expression that shardweld can use (invalid "
              "perl operator: (?=); write it without look-around and back-references, which RE2 "
              "does not have");
}

TEST(ParseOptions, accepts_what_verl_knows_and_says_what_it_does) {
    const Options options = parsed({"merge", "--local_dir", "in", "--trust-remote-code",
                                    "--use_cpu_initialization", "--hf_model_path", "hf", "-v"});
    EXPECT_EQ(options.hf_config, fs::path("hf"));
    EXPECT_EQ(options.log_level, LogLevel::debug);
    EXPECT_EQ(options.notes,
              (Words{"--hf_model_path means --hf_config",
                     "--use_cpu_initialization has no effect: no model is built and no code is run",
                     "--trust_remote_code has no effect: no model is built and no code is run"}));
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--hf_config", "b", "--hf_model_path", "b"}),
              "usage: --hf_config and --hf_model_path mean the same; give one of them");
}

TEST(ParseOptions, refuses_what_belongs_to_later_versions) {
    EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--map"}),
              "unsupported: --map is not in this version yet; leave it out");
}

TEST(ParseOptions, reads_durations) {
    const auto stall = [](const char* text) {
        return parsed({"merge", "--local_dir", "in", "--stall_timeout", text}).stall_timeout;
    };
    EXPECT_EQ(stall("90"), 90);
    EXPECT_EQ(stall("90s"), 90);
    EXPECT_EQ(stall("5m"), 300);
    EXPECT_EQ(stall("1.5h"), 5400);
    EXPECT_EQ(stall("2d"), 172'800);
    EXPECT_EQ(stall("0"), 0);
    EXPECT_EQ(parsed({"merge", "--local_dir", "in"}).stall_timeout, 1800);
    EXPECT_EQ(parsed({"merge", "--local_dir", "in"}).stop_before, std::nullopt);
    EXPECT_EQ(parsed({"merge", "--local_dir", "in", "--stop_before", "2m"}).stop_before, 120);
    EXPECT_EQ(parsed({"merge", "--local_dir", "in", "--stop_at", "1795702382"}).stop_at,
              1795702382);
    const auto later = parsed({"merge", "--local_dir", "in", "--stop_at", "+1h"}).stop_at;
    EXPECT_NEAR(later.value_or(0), static_cast<double>(std::time(nullptr)) + 3600, 5);
    EXPECT_EQ(parsed({"merge", "--local_dir", "in", "--stop_at", "2026-11-22T03:10"}).stop_at,
              parsed({"merge", "--local_dir", "in", "--stop_at", "2026-11-22T03:10:00"}).stop_at);
    EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--stop_at", "soon"}),
              "usage: --stop_at soon is no point in time; give for example +50m, "
              "2026-11-22T03:10 or seconds since 1970");
    for (const char* text : {"m", "5 m", "5min", "-5", "1e3s", "nan", "inf", "5ms"}) {
        EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--stop_before", text}),
                  "usage: --stop_before " + std::string(text) +
                      " is not a time; give for example 90s, 5m or 2h");
    }
}

TEST(ParseOptions, reads_a_mesh) {
    const Options options = parsed(
        {"merge", "--local_dir", "in", "--mesh_dim_names", "ddp,fsdp", "--mesh_shape", "2,4"});
    EXPECT_EQ(options.mesh.names, (Words{"ddp", "fsdp"}));
    EXPECT_EQ(options.mesh.shape, (std::vector<Index>{2, 4}));
    EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--mesh_shape", "2"}),
              "usage: --mesh_dim_names and --mesh_shape belong together; give both");
    EXPECT_EQ(
        refusal({"merge", "--local_dir", "in", "--mesh_shape", "2,x", "--mesh_dim_names", "a,b"}),
        "usage: --mesh_shape 2,x is not a list of numbers; give one such as 2,4");
    EXPECT_EQ(
        refusal({"merge", "--local_dir", "in", "--mesh_shape", "2", "--mesh_dim_names", "a,b"}),
        "usage: --mesh_dim_names has 2 names but --mesh_shape 1 numbers; give as many names as "
        "numbers");
}

TEST(ParseOptions, reads_what_comparisons_and_uploads_need) {
    const Options test =
        parsed({"test", "--local_dir", "in", "--test_hf_dir", "hf", "--atol", "1e-3"});
    EXPECT_EQ(test.reference, fs::path("hf"));
    EXPECT_EQ(test.atol, 1e-3);
    EXPECT_EQ(test.rtol, 1e-6);
    EXPECT_EQ(refusal({"test", "--local_dir", "in"}),
              "usage: test needs a model to compare with; give --test_hf_dir DIR");
    const Options diff = parsed({"diff", "a", "b"});
    EXPECT_EQ(diff.local_dir, fs::path("a"));
    EXPECT_EQ(diff.reference, fs::path("b"));
    EXPECT_EQ(refusal({"diff", "a"}),
              "usage: two directories are needed; usage: shardweld diff MODEL [MODEL] [options]");
    EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--private"}),
              "usage: no repository is given; add --hf_upload_path ORG/NAME");
    EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--lora_alpha", "0"}),
              "usage: --lora_alpha 0 would switch the adapter off; give the alpha it was trained "
              "with");
    EXPECT_EQ(refusal({"merge", "--local_dir", "in", "--lora_alpha", "1e999"}),
              "usage: --lora_alpha 1e999 is not a number; give one such as 16 or 1e-6");
}

TEST(ParseOptions, refuses_repeats_in_any_spelling) {
    const std::string twice =
        "usage: --local_dir is given twice; shardweld merge --help lists the options";
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--local_dir", "a"}), twice);
    EXPECT_EQ(refusal({"merge", "--local_dir=a", "--local-dir", "b"}), twice);
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--overwrite", "--overwrite"}),
              "usage: --overwrite is given twice; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "-v", "--verbose"}),
              "usage: --verbose is given twice; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "-v", "-q"}),
              "usage: --verbose and --quiet exclude each other; give one of them");
}

TEST(ParseOptions, takes_directories_without_their_options_names) {
    const Options merge = meaning({"merge", "in", "out", "--dtype", "bf16"});
    EXPECT_EQ(merge,
              meaning({"merge", "--local_dir", "in", "--target_dir", "out", "--dtype=bf16"}));
    EXPECT_EQ(merge.target_dir, fs::path("out"));
    EXPECT_TRUE(merge.has_target);
    EXPECT_EQ(meaning({"plan", "in"}), meaning({"plan", "--local_dir", "in"}));
    EXPECT_EQ(meaning({"test", "in", "hf"}),
              meaning({"test", "--test_hf_dir=hf", "--local_dir=in"}));
    EXPECT_EQ(meaning({"verify", "out"}), meaning({"verify", "--local_dir", "out"}));
    EXPECT_EQ(meaning({"./in", "--json"}), meaning({"inspect", "./in", "--json"}));
    EXPECT_EQ(refusal({"merge", "--target_dir", "c", "a", "b"}),
              "usage: --target_dir is given twice: c and b; give it once");
}

TEST(ParseOptions, takes_torchs_names_of_types) {
    const auto type_of = [](const char* name) {
        return parsed({"merge", "in", "--dtype", name}).dtype;
    };
    for (const char* name : {"bf16", "bfloat16", "torch.bfloat16", "BF16"}) {
        EXPECT_EQ(type_of(name), DType::bf16) << name;
    }
    for (const char* name : {"fp16", "float16", "half", "torch.half", "F16"}) {
        EXPECT_EQ(type_of(name), DType::f16) << name;
    }
    for (const char* name : {"fp32", "float32", "float", "torch.float32", "F32"}) {
        EXPECT_EQ(type_of(name), DType::f32) << name;
    }
    EXPECT_EQ(refusal({"merge", "in", "--dtype", "float8_e4m3fn"}).substr(0, 11), "unsupported");
}

TEST(ParseOptions, suggests_the_nearest_name) {
    EXPECT_EQ(refusal({"merge", "--target-dri", "x"}),
              "usage: unknown option --target_dri; did you mean --target_dir?");
    EXPECT_EQ(refusal({"merge", "--local", "x"}),
              "usage: unknown option --local; did you mean --local_dir?");
    EXPECT_EQ(refusal({"merge", "--zzzzzz", "x"}),
              "usage: unknown option --zzzzzz; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"plam"}), "usage: unknown command plam; did you mean plan?");
    EXPECT_EQ(refusal({"merge", "--ranks", "2"}),
              "usage: --ranks is not an option of merge; the launcher starts ranks: mpirun -n 8 "
              "shardweld merge ..., or srun");
    EXPECT_EQ(refusal({"merge", "--atol", "2"}),
              "usage: --atol is not an option of merge; it is one of test, diff; shardweld merge "
              "--help lists its own");
}

TEST(ParseOptions, knows_what_people_type_who_come_from_other_tools) {
    const auto meant = [](const Words& words, const char* option) {
        const std::string text = refusal(words);
        EXPECT_NE(text.find(std::string("did you mean ") + option), std::string::npos) << text;
    };
    meant({"merge", "a", "b", "--force"}, "--overwrite?");
    meant({"merge", "a", "-o", "b"}, "--target_dir DIR?");
    meant({"merge", "a", "--output", "b"}, "--target_dir DIR?");
    meant({"merge", "--model", "a", "b"}, "--local_dir DIR?");
    meant({"merge", "--load", "a", "b"}, "--local_dir DIR?");
    meant({"merge", "a", "b", "--step", "3"}, "--iteration N?");
    meant({"merge", "a", "b", "--gguf"}, "--quantize gguf:q8_0?");
    meant({"merge", "a", "b", "--merge-lora"}, "--lora fold?");
    meant({"merge", "a", "b", "--quantize", "fp8"}, "fp8-block?");
    meant({"merge", "a", "b", "--quantize", "q8_0"}, "gguf:q8_0?");
    meant({"merge", "a", "b", "--quantize", "Q4_K_M"}, "gguf:q4_0?");
    meant({"merge", "a", "b", "--quantize=int8"}, "w8a16?");
    meant({"merge", "a", "b", "--dtype", "bfloat"}, "bf16?");
    meant({"merge", "a", "b", "--lora", "merge"}, "fold?");
    meant({"convert", "a", "b"}, "shardweld merge?");
    meant({"./a", "b"}, "shardweld merge ./a b?");
    meant({"./a", "--target-dir", "b"}, "shardweld merge ./a --target-dir b?");
    EXPECT_EQ(refusal({"merge", "a", "b", "--dry-run"}),
              "usage: --dry_run is not an option of merge; shardweld plan takes the same options "
              "and writes nothing");
    EXPECT_EQ(refusal({"--local_dir", "a"}),
              "usage: no command is given before --local_dir; the command comes first, for "
              "example: shardweld merge --local_dir ...");
}

TEST(TypedWords, mean_options_and_values_that_there_are) {
    for (const TypedOption& row : typed_options()) {
        for (const CommandRow& command : command_rows()) {
            if ((row.commands & bit_of(command.command)) == 0 || row.means.empty()) {
                continue;
            }
            for (const std::string_view word : split(row.means, ' ')) {
                if (word.starts_with("--")) {
                    const OptionRow* const meant = find_option(word.substr(2));
                    ASSERT_NE(meant, nullptr) << word;
                    EXPECT_TRUE(meant->is_taken_by(command.command)) << command.name << word;
                }
            }
            for (const std::string_view typed : split(row.typed, ' ')) {
                const OptionRow* const known = find_option(typed);
                EXPECT_TRUE(known == nullptr || !known->is_taken_by(command.command))
                    << command.name << " has " << typed;
                EXPECT_EQ(find_typed_option(typed, command.command), &row)
                    << command.name << " has two rows of " << typed;
            }
        }
    }
    for (const TypedValue& row : typed_values()) {
        if (row.option == "target") {
            continue;  // of check, which reads these rows itself
        }
        const OptionRow* const option = find_option(replaced(std::string(row.option), "-", "_"));
        ASSERT_NE(option, nullptr) << row.option;
        const auto& words = option->set.words();
        EXPECT_TRUE(row.means.empty() || row.means.starts_with("--") ||
                    std::ranges::count(words, row.means) == 1)
            << row.option << " " << row.means;
    }
}

TEST(ParseOptions, writes_a_gguf_file_where_the_target_is_named_as_one) {
    const auto gguf = [](Words more) {
        more.insert(more.begin(), {"merge", "in"});
        return parsed(std::move(more));
    };
    const Options plain = gguf({"out/x.gguf"});
    EXPECT_EQ(plain.target_dir, "out/x");
    EXPECT_EQ(plain.gguf_file, "x.gguf");
    EXPECT_EQ(plain.quantise, Encoding::gguf_bf16);
    EXPECT_EQ(output_requests(plain).front().gguf_file, "x.gguf");
    EXPECT_EQ(plain.output_options, Words{"--quantize gguf:bf16"});
    EXPECT_EQ(plain.remarks.size(), 1U);
    EXPECT_EQ(gguf({"x-Q8_0.gguf"}).quantise, Encoding::gguf_q8_0);
    EXPECT_EQ(gguf({"x.f16.GGUF"}).quantise, Encoding::gguf_f16);
    EXPECT_EQ(gguf({"x.gguf", "--dtype", "fp32"}).quantise, Encoding::gguf_f32);
    EXPECT_EQ(gguf({"x.gguf", "--quantize", "gguf:q4_0"}).quantise, Encoding::gguf_q4_0);
    EXPECT_EQ(refusal({"merge", "in", "x-Q4_K_M.gguf"}).substr(0, 79),
              "usage: x-Q4_K_M.gguf names a type that shardweld does not write; did you mean g");
    EXPECT_EQ(refusal({"merge", "in", "x.gguf", "--quantize", "fp8-block"}).substr(0, 57),
              "usage: --quantize fp8-block is not a type of GGUF files, ");
    EXPECT_EQ(refusal({"merge", "in", "a/x.safetensors"}),
              "usage: the target a/x.safetensors is named as a file, and a directory is written; "
              "name the directory: a/x");
}

TEST(ParseOptions, replaces_a_tilde_that_no_shell_has_replaced) {
    const std::string home = std::getenv("HOME");
    EXPECT_EQ(parsed({"inspect", "~/a"}).local_dir, home + "/a");
    EXPECT_EQ(parsed({"merge", "--local_dir=~/a", "--target_dir=~/b"}).target_dir, home + "/b");
    EXPECT_EQ(parsed({"merge", "in", "out", "--include", "~/a"}).selection.include, "~/a");
    EXPECT_EQ(refusal({"merge", "in", "~nobody/out"}),
              "usage: ~nobody/out begins with a tilde that no shell has replaced; write the "
              "directory out, without ~");
}

TEST(ParseOptions, refuses_missing_and_bad_values) {
    EXPECT_EQ(refusal({}).substr(0, 57),
              "usage: no command is given; these are the commands:\n  mer");
    EXPECT_EQ(test::error_text([] {
                  parse_options({"shardweld", "merge", "a b"});
              }),
              "usage: no target is given; name the directory to write: shardweld merge 'a b' OUT");
    EXPECT_EQ(parsed({"merge", "a", "--verl"}).target_dir, "tmp");
    EXPECT_EQ(refusal({"merge"}),
              "usage: no directory is given; usage: shardweld merge DIR [OUT] [options]");
    EXPECT_EQ(refusal({"merge", "--local_dir"}),
              "usage: --local_dir needs a value: DIR; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"merge", "--local_dir", "--overwrite"}),
              "usage: --local_dir needs a value: DIR; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--target_dir", "-q"}),
              "usage: --target_dir needs a value: DIR; shardweld merge --help lists the options");
    EXPECT_EQ(parsed({"merge", "--local_dir", "a", "--target_dir=-q"}).target_dir, "-q");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--overwrite=yes"}),
              "usage: --overwrite takes no value; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--memory_limit", "5 parsecs"}),
              "usage: --memory_limit 5 parsecs is not a size; give for example 5GB, 512MiB or a "
              "number of bytes");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--memory_limit", "1023KiB"}),
              "usage: --memory_limit 1023KiB is too small; give at least 1MiB a rank");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--max_shard_size", "0"}).substr(0, 34),
              "usage: --max_shard_size 0 is not a");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--iteration", "-1"}),
              "usage: --iteration -1 is not a number in its range; give one from 0 to 2147483647");
    EXPECT_EQ(refusal({"plan", "--local_dir", "a", "--ranks", "0"}),
              "usage: --ranks 0 is not a number in its range; give one from 1 to 2147483647");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--max_readers", "2", "--strategy", "direct"}),
              "usage: --strategy direct lets every rank read; leave out one of --strategy and "
              "--max_readers");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--dtype", "fp8"}),
              "unsupported: --dtype fp8 would write floats of fewer bits without their scales; "
              "--quantize writes both, as fp8-block or in another of its encodings; stored 8-bit "
              "floats stay as they are");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--dtype", "int4"}),
              "usage: invalid value 'int4' for --dtype (choose bf16, fp16 or fp32); did you mean "
              "--quantize w4a16?");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "--backend", "xyz"}),
              "usage: invalid value 'xyz' for --backend (choose auto, megatron, deepspeed, fsdp, "
              "bytecheckpoint, dcp, colossalai, hf, peft or hdf5)");
    EXPECT_EQ(refusal({"merge", "a", "b", "c"}),
              "usage: unexpected argument c; several checkpoints become one model with --average: "
              "shardweld merge --average a b c");
    EXPECT_EQ(refusal({"inspect", "a", "--local_dir", "b"}),
              "usage: --local_dir is given twice: b and a; give it once");
    EXPECT_EQ(refusal({"merge", "--local_dir", "a", "-x"}),
              "usage: unknown option -x; shardweld merge --help lists the options");
    EXPECT_EQ(refusal({"merge", "-local_dir", "a"}),
              "usage: unknown option -local_dir; did you mean --local_dir?");
    EXPECT_EQ(refusal({"plan", "--local_dir", "a", "--ranks", "100001"}),
              "usage: --ranks 100001 is too many; give at most 100000");
}

TEST(ParseOptions, refuses_what_does_not_go_together) {
    const auto merge = [](Words more) {
        more.insert(more.begin(), {"merge", "--local_dir", "a"});
        return refusal(more);
    };
    EXPECT_EQ(merge({"--sha256", "--report", "none"}),
              "usage: --sha256 needs a report, which holds the checksums; add --report FILE");
    EXPECT_EQ(merge({"--stripe", "8,1"}).substr(0, 24), "usage: --stripe 8,1 is n");
    EXPECT_EQ(merge({"--memory_limit", "99999999999999999999GB"}).substr(0, 44),
              "usage: --memory_limit 99999999999999999999GB");
}

TEST(ParseOptions, takes_letters_together_and_what_follows_two_dashes_as_it_is) {
    EXPECT_EQ(refusal({"inspect", "a", "-qv"}),
              "usage: --verbose and --quiet exclude each other; give one of them");
    EXPECT_EQ(refusal({"inspect", "a", "-vv"}),
              "usage: --verbose is given twice; shardweld inspect --help lists the options");
    EXPECT_EQ(parsed({"diff", "--json", "--", "-q", "--json"}).reference, "--json");
    EXPECT_EQ(parsed({"inspect", "-"}).local_dir, "-");
}

TEST(ParseOptions, asks_for_help_before_anything_else) {
    for (const Words& words : std::vector<Words>{
             {"merge", "--help"}, {"merge", "-h"}, {"help", "merge"}, {"merge", "--bad", "-h"}}) {
        const Options options = parsed(words);
        EXPECT_EQ(options.command, Command::help);
        EXPECT_EQ(options.topic, "merge");
    }
    EXPECT_EQ(parsed({"--help"}).topic, "");
    EXPECT_EQ(parsed({"--version"}).command, Command::version);
    EXPECT_NE(parsed({"--version"}).log_level, LogLevel::debug);
    EXPECT_EQ(parsed({"--version", "--verbose"}).log_level, LogLevel::debug);
}

TEST(ParseOptions, takes_names_for_inspect_plan_and_recipes) {
    EXPECT_EQ(parsed({"inspect", "dir", "--json"}).local_dir, "dir");
    EXPECT_TRUE(parsed({"inspect", "dir", "--json"}).json);
    EXPECT_EQ(parsed({"recipes", "qwen3"}).topic, "qwen3");
    EXPECT_EQ(parsed({"plan", "--local_dir", "a", "--ranks", "512"}).n_ranks, 512);
    for (const OptionRow& line : option_rows()) {
        EXPECT_TRUE((line.commands & kMerge) == 0 || (line.commands & kPlan) != 0)
            << "plan does not take merge's --" << line.name;
    }
}

TEST(HelpText, lists_the_options_of_its_command_only) {
    const std::string merge = help_text("merge");
    EXPECT_NE(merge.find("--target_dir DIR    directory to write; OUT.gguf"), std::string::npos);
    EXPECT_NE(merge.find("mpirun -n 8 shardweld merge"), std::string::npos);
    EXPECT_EQ(merge.find("--ranks"), std::string::npos);
    EXPECT_EQ(merge.find("hf_model_path"), std::string::npos);
    EXPECT_NE(help_text("plan").find("--ranks N"), std::string::npos);
    EXPECT_NE(help_text("").find("inspect"), std::string::npos);
    std::vector<std::string_view> topics{""};
    for (const CommandRow& row : command_rows()) {
        topics.push_back(row.name);
    }
    for (const std::string_view topic : topics) {
        for (const std::string_view line : split(help_text(std::string(topic)), '\n')) {
            EXPECT_LE(line.size(), 100U) << line;
        }
    }
    EXPECT_EQ(test::error_text([] { help_text("mrege"); }),
              "usage: there is no help on mrege; did you mean merge?");
}

TEST(InputRequest, carries_what_formats_need) {
    const auto request = input_request(parsed({"merge", "--local_dir", "in", "--iteration", "7",
                                               "--role", "actor", "--weights", "model"}));
    EXPECT_EQ(request.directory, "in");
    EXPECT_EQ(request.backend, "auto");
    EXPECT_EQ(request.iteration, 7);
    EXPECT_EQ(request.role, "actor");
    EXPECT_EQ(request.weights, formats::WeightsFrom::model);
}

plan::Binding binding_of(const std::vector<std::string>& names) {
    plan::Binding binding;
    for (const std::string& name : names) {
        plan::Target& target = binding.targets.emplace_back();
        target.name = name;
        target.shape = {0};
    }
    return binding;
}

std::vector<std::string> names_kept(const Selection& selection) {
    plan::Binding binding = binding_of({"model.a", "model.b", "head"});
    select(binding, selection);
    std::vector<std::string> names;
    for (const plan::Target& target : binding.targets) {
        names.push_back(target.name);
    }
    return names;
}

TEST(Select, searches_for_expressions_in_names) {
    using TensorNames = std::vector<std::string>;
    EXPECT_EQ(names_kept({"^model", std::nullopt}), (TensorNames{"model.a", "model.b"}));
    EXPECT_EQ(names_kept({std::nullopt, "a$"}), (TensorNames{"model.b", "head"}));
    EXPECT_EQ(names_kept({"model|head", "(a|b)$"}), (TensorNames{"head"}));
}

TEST(Select, ends_soon_whatever_is_asked_of_whatever_name) {
    const std::string name(200'000, 'a');
    plan::Binding binding = binding_of({name, name + "!"});
    select(binding, {"(.+)+!", "(a|aa)*b"});
    EXPECT_EQ(binding.targets.size(), 1U);
}

TEST(Suggestion, names_the_nearest_word_only_when_it_is_near) {
    EXPECT_EQ(suggestion("merg", {"merge", "plan"}), "did you mean merge?");
    EXPECT_EQ(suggestion("--target_dri", {"--local_dir", "--target_dir"}),
              "did you mean --target_dir?");
    EXPECT_EQ(suggestion("banana", {"merge", "plan"}), "");
    EXPECT_EQ(suggestion("", {"merge"}), "");
}

TEST(StorageOptions, read_striping) {
    const auto striped = [](const std::string& text) {
        return *parsed({"merge", "--local_dir", "x", "--stripe", text}).striping;
    };
    EXPECT_EQ(striped("8"), (publish::Striping{8, 0}));
    EXPECT_EQ(striped("all"), (publish::Striping{-1, 0}));
    EXPECT_EQ(striped("-1,64KiB"), (publish::Striping{-1, 65536}));
    EXPECT_EQ(striped("2000,4MiB"), (publish::Striping{2000, Bytes{4} << 20U}));
    EXPECT_EQ(parsed({"merge", "--local_dir", "x"}).striping, std::nullopt);
}

}  // namespace
}  // namespace shardweld::app
