// What command lines mean, a row each, and which are refused: refusals.txt.
#include "app/settings/job.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <span>

#include <gtest/gtest.h>

#include "app/cli/parse_options.hpp"
#include "app/settings/nearest.hpp"
#include "app/settings/option_table.hpp"
#include "app/settings/typed_words.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"
#include "support/error_text.hpp"

namespace shardweld::app {
namespace {

using Words = std::vector<std::string>;

Job parsed(Words words) {
    words.insert(words.begin(), "shardweld");
    return parse_options(words);
}

/// Words with blanks between them.
Words words_of(std::string_view line) {
    const auto words = split(line, ' ');
    return {words.begin(), words.end()};
}

Job parsed(std::string_view line) {
    return parsed(words_of(line));
}

struct Meaning {
    const char* line;
    const char* text;  ///< of what holds
    bool (*holds)(const Job&);
};

#define MEANS(line, ...)                                                     \
    {                                                                        \
        line, #__VA_ARGS__, [](const Job& o) -> bool { return __VA_ARGS__; } \
    }

TEST(ParseOptions, takes_command_lines_for_what_they_mean) {
    using Paths = std::vector<fs::path>;
    const Meaning rows[] = {
        MEANS("merge in out", o.command == Command::merge && o.inputs.front().directory == "in"),
        MEANS("merge in out",
              o.outputs.front().directory == "out" && o.inputs.front().backend == "auto"),
        MEANS("merge in out", o.run.plan.max_shard_size == 5'000'000'000U && o.run.max_open == 64),
        MEANS("merge in out", !o.run.memory_limit && !o.outputs.front().dtype &&
                                  !o.model.hf_config && !o.run.stop_before),
        MEANS("merge in out",
              o.run.sync && !o.run.overwrite && !o.run.strict && o.run.stall_timeout == 1800),
        MEANS("merge in out",
              o.inputs.front().check_crc && !o.inputs.front().wants_model && !o.run.striping),
        MEANS("merge in --verl",
              o.outputs.front().directory == "tmp" && o.outputs.front().dtype == DType::bf16),
        MEANS("merge in --verl --dtype fp32",
              o.outputs.front().dtype == DType::f32 && !o.run.has_card),
        MEANS("merge --local-dir=in --target-dir out", o.outputs.front().directory == "out"),
        MEANS("merge in out --backend megatron", o.inputs.front().backend == "megatron"),
        MEANS("merge in out --hf-config hf", o.model.hf_config == fs::path("hf")),
        MEANS("merge in out --hf_model_path hf", o.model.hf_config == fs::path("hf")),
        MEANS("merge in out --hf_model_path hf", o.notes.size() == 1),
        MEANS("merge in out --trust-remote-code --use_cpu_initialization", o.notes.size() == 2),
        MEANS("merge in out --iteration 12", o.inputs.front().iteration == 12),
        MEANS("merge in out --role=critic", o.inputs.front().role == "critic"),
        MEANS("merge in out --recipe my.recipe", o.model.recipe == fs::path("my.recipe")),
        MEANS("merge in out --prefix a", o.inputs.front().prefix == "a"),
        MEANS("merge in out --weights model",
              o.inputs.front().weights == formats::WeightsFrom::model),
        MEANS("merge in out --state all", o.inputs.front().state == formats::TakenState::all),
        MEANS("merge in out --mesh_dim_names a,b --mesh_shape 2,4",
              o.inputs.front().mesh.names == Words{"a", "b"} &&
                  o.inputs.front().mesh.shape == std::vector<Index>{2, 4}),
        MEANS("merge in out --check_crc", o.run.check_crc == CheckCrc::before),
        MEANS("merge in out --check_crc off", !o.inputs.front().check_crc),
        MEANS("inspect in", o.inputs.front().wants_model && o.inputs.front().directory == "in"),
        MEANS("merge in out --max-open=3", o.run.max_open == 3),
        MEANS("merge in out --overwrite", o.run.overwrite),
        MEANS("merge in out --if_complete skip", o.run.if_complete == IfComplete::skip),
        MEANS("merge in out --max_shard-size 2GiB", o.run.plan.max_shard_size == Bytes{2} << 30U),
        MEANS("merge in out --no-fsync", !o.run.sync),
        MEANS("merge in out --no_card", !o.run.has_card),
        MEANS("merge in out --direct_io", o.run.is_direct),
        MEANS("merge in out --tie-word-embedding", o.model.is_tied),
        MEANS("merge in out --is-value-model", o.model.is_value),
        MEANS("merge in out --vocab_size 9",
              o.model.vocab_size == 9 && o.inputs.front().wants_model),
        MEANS("merge in out --names module", o.model.has_module_names),
        MEANS("merge in out --lora fold", o.model.lora == Lora::fold),
        MEANS("merge in out --lora_alpha 16", o.model.lora_alpha == 16),
        MEANS("merge in out --base b", o.model.base == fs::path("b")),
        MEANS("merge in out --supplement s", o.model.supplement == "s"),
        MEANS("merge in out --include ~/a", o.model.selection.include == "~/a"),
        MEANS("merge in out --exclude=-x", o.model.selection.exclude == "-x"),
        MEANS("merge in out --strategy collective",
              o.run.plan.strategy == plan::Strategy::collective),
        MEANS("merge in out --replicas verify", o.run.plan.replicas == plan::Replicas::verify),
        MEANS("merge in out --memory-limit 64M", o.run.memory_limit == Bytes{64} << 20U),
        MEANS("merge in out --message_limit=64", o.run.plan.message_limit == 64),
        MEANS("merge in out --max_readers 2", o.run.plan.max_readers == 2),
        MEANS("merge in out --read_ahead no", o.run.read_ahead == false),
        MEANS("merge in out --bw_limit 1GB", o.run.bw_limit == 1'000'000'000U),
        MEANS("merge in out --resume", o.run.resume),
        MEANS("merge in out --restart", o.run.restart),
        MEANS("merge in out --strict", o.run.strict),
        MEANS("merge in out --paranoid", o.run.paranoid),
        MEANS("merge in out --sha256", o.run.sha256),
        MEANS("merge in out --trace a", o.run.trace == "a"),
        MEANS("merge in out --log_dir l", o.run.log_dir == fs::path("l")),
        MEANS("merge in out --done d", o.run.done == fs::path("d")),
        MEANS("merge in out --progress json", o.run.progress == ProgressStyle::json),
        MEANS("merge in out -q", o.run.log_level == LogLevel::error),
        MEANS("merge in out -v", o.run.log_level == LogLevel::debug),
        MEANS("merge in out --hf_upload", o.run.upload_path.empty()),
        MEANS("merge in out --hf_upload_path me/b --private", o.run.is_private),
        MEANS("merge in out --hf_upload_path me/b", o.run.upload_path == "me/b"),
        MEANS("merge in out --hf_upload_path me/b --revision r/a", o.run.revision == "r/a"),
        MEANS("merge in out --hf_upload_path me/b --hf_cli x", o.run.hf_cli == fs::path("x")),
        MEANS("merge in out --output_format hdf5", o.run.plan.output_format->name() == "hdf5"),
        MEANS("merge in out --quantize fp8-block",
              o.outputs.front().quantise == encoding_from("fp8-block")),
        MEANS("merge in out --quantize w4a16 --quantize_ignore x", o.model.quantise_ignore == "x"),
        MEANS("merge in out --also a:fp8-block --quantize_ignore x",
              o.model.quantise_ignore == "x"),
        MEANS("merge in out --to dcp",
              o.outputs.front().form == "dcp" && o.inputs.front().wants_model),
        MEANS("merge in out --to hf", o.outputs.front().form.empty()),
        MEANS("merge in out --like t", o.outputs.front().form == "like:t"),
        MEANS("merge in out --like t --like_only_weights no", !o.run.copies_template),
        MEANS("reshape in out --to hf", o.command == Command::merge),
        // Types as torch calls them.
        MEANS("merge in out --dtype BF16", o.outputs.front().dtype == DType::bf16),
        MEANS("merge in out --dtype torch.bfloat16", o.outputs.front().dtype == DType::bf16),
        MEANS("merge in out --dtype float16", o.outputs.front().dtype == DType::f16),
        MEANS("merge in out --dtype torch.half", o.outputs.front().dtype == DType::f16),
        MEANS("merge in out --dtype float", o.outputs.front().dtype == DType::f32),
        // Times, sizes, stripes.
        MEANS("merge in out --stall_timeout 90", o.run.stall_timeout == 90),
        MEANS("merge in out --stall_timeout 90s", o.run.stall_timeout == 90),
        MEANS("merge in out --stall_timeout 1.5h", o.run.stall_timeout == 5400),
        MEANS("merge in out --stall_timeout 2d", o.run.stall_timeout == 172'800),
        MEANS("merge in out --stall_timeout 0", o.run.stall_timeout == 0),
        MEANS("merge in out --stop_before 2m", o.run.stop_before == 120),
        MEANS("merge --average a b c out --iteration 3",
              averaged(o) == Paths{"a", "b", "c"} && o.inputs.size() == 3 &&
                  o.inputs[2].use == formats::Role::mixed && o.inputs[2].iteration == 3),
        MEANS("merge --task_arithmetic base --scale 1 a b out",
              averaged(o) == Paths{"a", "b"} && o.inputs[1].directory == "base"),
        MEANS("merge in out --base b",
              o.inputs[1].use == formats::Role::base && o.inputs[1].backend == "hf"),
        MEANS("merge in out --supplement s",
              o.inputs[1].use == formats::Role::supplement && o.inputs[1].wants_model),
        MEANS("merge in out --like l",
              o.inputs[1].use == formats::Role::like && o.inputs[1].directory == "l"),
        MEANS("merge in out --stop_at 1795702382", o.run.stop_at == 1795702382),
        MEANS("merge in out --stop_at 2026-11-22T03:10",
              o.run.stop_at == parsed("merge in out --stop_at 2026-11-22T03:10:00").run.stop_at),
        MEANS("merge in out --stop_at +1h",
              std::abs(*o.run.stop_at - static_cast<double>(std::time(nullptr)) - 3600) < 5),
        MEANS("merge in out --stripe 8", *o.run.striping == publish::Striping{8, 0}),
        MEANS("merge in out --stripe all", *o.run.striping == publish::Striping{-1, 0}),
        MEANS("merge in out --stripe -1,64KiB", *o.run.striping == publish::Striping{-1, 65536}),
        // Reports: kept in the output unless told otherwise.
        MEANS("merge in out --also f:fp32", o.outputs[1].keeps_report && !o.outputs.front().report),
        MEANS("merge in out --report r.json", !o.outputs.front().keeps_report && o.has("report")),
        MEANS("merge in out --report r.json --also f:fp32",
              o.outputs[1].report == fs::path("r.also-1.json")),
        MEANS("merge in out --report none", !o.outputs.front().is_reported()),
        MEANS("merge in out --verl", !o.outputs.front().keeps_report),
        MEANS("plan in", o.outputs.front().keeps_report),
        MEANS("plan in --json --report none", std::ranges::count(o.merge_words, "none") == 1),
        MEANS("verify out", !o.outputs.front().keeps_report),
        // Other outputs, whose forms may have colons, and so may their directories.
        MEANS("merge in out --also a:torch_dist", o.outputs[1].form == "torch_dist"),
        MEANS("merge in out --also a:b:legacy:tp=2", o.outputs[1].form == "legacy:tp=2"),
        MEANS("merge in out --also a:b:legacy:tp=2", o.outputs[1].directory == "a:b"),
        MEANS("merge in out --to dcp --also a:hf", !o.outputs[1].is_training()),
        MEANS("merge in out --also a:bf16 --also b:fp16", o.outputs[2].dtype == DType::f16),
        MEANS("merge in out --dtype bf16 --also a:fsdp:world=2",
              o.outputs[1].is_training() && o.outputs[1].dtype == DType::bf16),
        // GGUF files.
        MEANS("merge in d/x.gguf",
              o.outputs.front().directory == "d/x" && o.outputs.front().gguf_file == "x.gguf"),
        MEANS("merge in x.gguf", o.outputs.front().quantise == encoding_from("gguf:bf16")),
        MEANS("merge in x.gguf", o.remarks.size() == 1 && o.inputs.front().wants_model),
        MEANS("merge in x-Q8_0.gguf", o.outputs.front().quantise == encoding_from("gguf:q8_0")),
        MEANS("merge in x.f16.GGUF", o.outputs.front().quantise == encoding_from("gguf:f16")),
        MEANS("merge in x.gguf --dtype fp32",
              o.outputs.front().quantise == encoding_from("gguf:f32")),
        MEANS("merge in x.gguf --quantize gguf:q4_0",
              o.outputs.front().quantise == encoding_from("gguf:q4_0")),
        // Several checkpoints: the last argument is the target, which plan does not need.
        MEANS("merge --average a b c out", averaged(o) == Paths{"a", "b", "c"}),
        MEANS("merge --average a b --target_dir out", averaged(o) == Paths{"a", "b"}),
        MEANS("plan --average a b", averaged(o) == Paths{"a", "b"} && o.inputs.front().wants_model),
        MEANS("plan --average a b --target_dir out --json",
              std::ranges::count(o.merge_words, fs::absolute("b").string()) == 1),
        MEANS("test --average a b model",
              o.run.reference == "model" && averaged(o) == Paths{"a", "b"}),
        MEANS("merge --task_arithmetic base --scale 0.5 a out",
              o.inputs.front().directory == "a" && o.model.averaging.base == fs::path("base")),
        MEANS("plan a b c --average",
              o.model.averaging.factors() == std::vector<float>(3, 1.0F / 3)),
        MEANS("plan a b c --average --average_weights 1,1,2",
              o.model.averaging.factors() == std::vector<float>{0.25F, 0.25F, 0.5F}),
        // These add up to 1 but for the rounding of decimal fractions.
        MEANS("plan a b c --average --average_weights 0.7,0.2,0.1",
              o.model.averaging.factors() == std::vector<float>{0.7F, 0.2F, 0.1F}),
        MEANS("plan a b c --average --average_weights 0.2,-0.5,2",
              o.model.averaging.factors()[1] == static_cast<float>(-0.5 / 1.7)),
        MEANS("plan a b c --average --average_decay 0.5",
              o.model.averaging.factors()[0] == static_cast<float>(0.25 / 1.75)),
        MEANS("plan a b --task_arithmetic base --scale 0.3",
              o.model.averaging.factors() == std::vector<float>(2, 0.3F)),
        MEANS("plan a b --average", o.model.averaging.text() == "average of 2: 0.5, 0.5"),
        MEANS("plan a b --average --average_weights 1,1",
              o.model.averaging.text() ==
                  "average of 2: 0.5, 0.5 (--average_weights 1,1, divided by their sum)"),
        MEANS("plan a b --average --average_weights 0.2,0.8",
              o.model.averaging.text() == "average of 2: 0.2, 0.8"),
        MEANS("plan a b --task_arithmetic base --scale 0.3",
              o.model.averaging.text() == "the base plus 2 differences, times 0.3, 0.3"),
        // Other commands.
        MEANS("plan in --ranks 512", o.run.n_ranks == 512),
        MEANS("plan in --inputs", o.run.lists_inputs),
        MEANS("plan in --rate 5GB", o.run.rate == Bytes{5'000'000'000}),
        MEANS("merge in out --color never", o.run.has_colours == false),
        MEANS("test in hf --atol 1e-3",
              o.run.reference == "hf" && o.run.atol == 1e-3 && o.run.rtol == 1e-6),
        MEANS("test in hf --rtol 2 --strict_dtype", o.run.rtol == 2 && o.run.strict_dtype),
        MEANS("test in hf --of_merge --overwrite", !o.run.overwrite),
        MEANS("diff a b", o.inputs.front().directory == "a" && o.run.reference == "b"),
        MEANS("diff --json -- -q --json", o.run.reference == "--json" && o.run.json),
        MEANS("inspect in --steps", o.run.shows_steps),
        MEANS("inspect in --all", o.run.is_whole),
        MEANS("./in --json", o.command == Command::inspect && o.run.json),
        MEANS("inspect -", o.inputs.front().directory == "-"),
        MEANS("inspect a,b", o.inputs.front().directory == "a,b"),
        MEANS("inspect -- --odd", o.inputs.front().directory == "--odd"),
        MEANS("inspect --local_dir -odd", o.inputs.front().directory == "-odd"),
        MEANS("inspect --local_dir=a=b,c-d_e", o.inputs.front().directory == "a=b,c-d_e"),
        MEANS("merge in --target_dir=-q", o.outputs.front().directory == "-q"),
        MEANS("clean in --older_than 7d --dry_run",
              o.run.older_than == 604'800 && o.run.is_dry_run),
        MEANS("recipes qwen3", o.topic == "qwen3"),
        MEANS("recipes --config d", o.model.config == fs::path("d")),
        // Help comes before anything else.
        MEANS("merge --help", o.command == Command::help && o.topic == "merge"),
        MEANS("merge --bad -h", o.topic == "merge" && o.help == HelpForm::brief),
        MEANS("help merge --json", o.topic == "merge" && o.help == HelpForm::json),
        MEANS("--help", o.command == Command::help && o.topic.empty()),
        MEANS("mount in d/x.gguf",
              o.outputs.front().directory == "d/x.gguf" && o.outputs.front().gguf_file.empty()),
        MEANS("mount in m --daemon", o.run.is_daemon && !o.run.is_for_all),
        MEANS("mount in m --ready r --cache_limit 1MiB",
              o.run.ready == fs::path("r") && o.run.cache_limit == 1048576U),
        MEANS("mount in m --allow_other -- ls m",
              o.run.is_for_all && o.run.program == Words{"ls", "m"}),
        MEANS("unmount m", o.command == Command::unmount),
        MEANS("--version", o.command == Command::version && o.run.log_level == LogLevel::info),
        MEANS("--version --verbose", o.run.log_level == LogLevel::debug),
    };
    Words covered;
    for (const Meaning& row : rows) {
        EXPECT_TRUE(row.holds(parsed(row.line))) << row.line << ": " << row.text;
        for (const std::string& word : words_of(row.line)) {
            covered.push_back(replaced(word.substr(0, word.find('=')), "-", "_"));
        }
    }
    // A new option has a row here.
    for (const OptionRow& row : option_rows()) {
        const std::string name = "__" + std::string(row.name);
        const bool is_argument = row.name == "topic" || row.name == "test_hf_dir";
        EXPECT_TRUE(is_argument || row.letter != 0 || std::ranges::count(covered, name) > 0)
            << name;
    }
}

TEST(ParseOptions, refuses_what_makes_no_sense) {
    std::ifstream file(SHARDWELD_TEST_DATA "/../unit/app/refusals.txt");
    int n_rows = 0;
    for (std::string row; std::getline(file, row);) {
        if (row.empty() || row.starts_with('#')) {
            continue;
        }
        const auto cells = split(row, '|');
        const std::string said = test::error_text([&] { parsed(trim(cells[1])); });
        EXPECT_EQ(said.substr(0, said.find(':')), trim(cells[0])) << row << ": " << said;
        for (const std::string_view cell : std::span(cells).subspan(2)) {
            EXPECT_NE(said.find(trim(cell)), std::string::npos) << row << ": " << said;
        }
        ++n_rows;
    }
    EXPECT_EQ(n_rows, 116);
    EXPECT_EQ(test::error_text([] { parsed(Words()); }).substr(0, 6), "usage:");
}

TEST(ParseOptions, takes_words_of_any_kind_and_length) {
    const std::string name(200'000, 'a');
    EXPECT_EQ(parsed({"plan", "--local_dir=" + name}).inputs.front().directory, name);
    EXPECT_EQ(parsed({"inspect", name}).inputs.front().directory, name);
    const auto refusal = [](const Words& words) {
        return test::error_text([&] { parsed(words); });
    };
    EXPECT_EQ(refusal({"merge", "a", "b", "-" + name}).substr(0, 6), "usage:");
    EXPECT_EQ(refusal({"merge", "a", "b", "--include", std::string(200'000, '(')}).substr(0, 20),
              "usage: --include (((");
    EXPECT_NE(refusal({"merge", "a b"}).find("shardweld merge 'a b' OUT"), std::string::npos);
    EXPECT_NE(refusal({"merge", "a", ""}).find("--target_dir"), std::string::npos);
    const std::string home = std::getenv("HOME");
    EXPECT_EQ(parsed("inspect ~/a").inputs.front().directory, home + "/a");
    EXPECT_EQ(parsed("merge --local_dir=~/a --target_dir=~/b").outputs.front().directory,
              home + "/b");
}

TEST(ParseOptions, tells_what_ranks_must_share_however_it_is_written) {
    const auto shared = [](std::string_view more) { return parsed(more).shared; };
    const std::string plain = shared("merge in out");
    EXPECT_EQ(shared("merge --local_dir=elsewhere --target-dir out"), plain);
    EXPECT_EQ(shared("merge in out -q"), plain);
    EXPECT_EQ(shared("merge in out --base a"), shared("merge in out --base b"));
    EXPECT_NE(shared("merge in out --base a"), plain);
    EXPECT_NE(shared("merge in out --lora fold"), shared("merge in out --lora drop"));
    EXPECT_NE(shared("merge in out --trace a"), shared("merge in out --trace b"));
    EXPECT_NE(shared("merge in out --report none"), shared("merge in out --report r"));
    EXPECT_NE(shared("merge in x.gguf"), shared("merge in x-q8_0.gguf"));
    EXPECT_NE(shared("plan --average a b"), shared("plan --average a b c"));
    EXPECT_NE(shared("verify a"), shared("diff a b"));
}

TEST(TypedWords, mean_options_and_values_that_there_are) {
    for (const TypedWord& row : typed_options()) {
        for (const CommandRow& command : command_rows()) {
            if ((commands_in(row.at) & bit_of(command.command)) == 0 || row.means.empty()) {
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
                EXPECT_EQ(find_typed_option(typed, command), &row)
                    << command.name << " has two rows of " << typed;
            }
        }
    }
    for (const TypedWord& row : typed_values()) {
        if (row.at == "target") {
            continue;  // of check, which reads these rows itself
        }
        const OptionRow* const option = find_option(replaced(std::string(row.at), "-", "_"));
        ASSERT_NE(option, nullptr) << row.at;
        EXPECT_TRUE(row.means.empty() || row.means.starts_with("--") ||
                    std::ranges::count(option->set.words, row.means) == 1)
            << row.at << " " << row.means;
    }
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
    EXPECT_EQ(names_kept({"^model", std::nullopt}), (Words{"model.a", "model.b"}));
    EXPECT_EQ(names_kept({std::nullopt, "a$"}), (Words{"model.b", "head"}));
    EXPECT_EQ(names_kept({"model|head", "(a|b)$"}), (Words{"head"}));
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

}  // namespace
}  // namespace shardweld::app
