#include "app/commands/commands.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/cli/parse_options.hpp"
#include "app/commands/advice.hpp"
#include "app/family/prepare_model.hpp"
#include "app/merge/tied.hpp"
#include "app/survey/input.hpp"
#include "core/codec.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

using nlohmann::ordered_json;

const fs::path kData = fs::path(SHARDWELD_TEST_DATA) / "megatron";

Job options_for(const std::string& name) {
    Job job;
    job.inputs.front().directory = kData / name / "source";
    job.model.hf_config = kData / name / "hf";
    job.run.json = true;
    return job;
}

int inspected(const Job& job, std::ostream& out) {
    std::ostringstream messages;
    Log log(messages, LogLevel::error, true);
    return inspect(*mpi::serial_comm(), job, out, log);
}

std::string printed_plan(const Job& job) {
    std::ostringstream out;
    std::ostringstream messages;
    Log log(messages, LogLevel::info, true);
    EXPECT_EQ(print_plan(*mpi::serial_comm(), job, out, log), 0);
    // Most fixtures have no tokenizer, some a recipe, and nothing else is worth a word.
    const std::string text = messages.str();
    EXPECT_TRUE(text.empty() || text.find("warning: there is no tokenizer") != std::string::npos ||
                text.find("warning: the recipe mine") != std::string::npos)
        << text;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 1) << text;
    return out.str();
}

ordered_json planned(const Job& job) {
    return ordered_json::parse(printed_plan(job));
}

/// Name -> dtype, shape and data offsets as an independent look at the file's header gives them.
ordered_json header_of(const fs::path& file) {
    const std::string bytes = test::content_of(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return ordered_json::parse(bytes.substr(8, length));
}

TEST(PrintPlan, names_every_tensor_of_the_expected_model_with_its_shape) {
    for (const char* name : {"llama-tp4-legacy-bf16", "qwen3moe-tp2-ep2-torchdist-bf16"}) {
        const ordered_json plan = planned(options_for(name));
        const ordered_json expected = header_of(kData / name / "expected/model.safetensors");
        std::size_t n_tensors = 0;
        for (const auto& tensor : plan["tensors"]) {
            const auto& wanted = expected[tensor["name"].get<std::string>()];
            EXPECT_EQ(tensor["shape"], wanted["shape"]) << tensor["name"];
            ++n_tensors;
        }
        EXPECT_EQ(n_tensors, expected.size() - (expected.contains("__metadata__") ? 1U : 0U));
    }
}

TEST(PrintPlan, balances_any_number_of_ranks_and_counts_what_they_send) {
    Job job = options_for("llama-tp4-legacy-bf16");
    job.run.n_ranks = 7;
    job.run.plan.strategy = plan::Strategy::collective;
    const ordered_json plan = planned(job);
    EXPECT_EQ(plan["ranks"], 7);
    EXPECT_EQ(plan["strategy"], "collective");
    EXPECT_EQ(plan["why"], "asked for");
    ASSERT_EQ(plan["written_by_rank"].size(), 7U);
    Bytes written = 0;
    for (const auto& bytes : plan["written_by_rank"]) {
        written += bytes.get<Bytes>();
    }
    EXPECT_EQ(written, plan["tensor_bytes"].get<Bytes>());
    // Sent is at most what is read; with seven ranks most of it changes hands.
    const Bytes read =
        plan["ledger"]["consumed"].get<Bytes>() + plan["ledger"]["replica"].get<Bytes>();
    EXPECT_LE(plan["network_bytes"].get<Bytes>(), read);
    EXPECT_GT(plan["network_bytes"].get<Bytes>(), read / 2);
    job.run.plan.strategy = plan::Strategy::direct;
    EXPECT_EQ(planned(job)["network_bytes"], 0);
    // The files do not depend on ranks or strategy.
    EXPECT_EQ(planned(job)["hash"], plan["hash"]);
}

TEST(PrintPlan, tells_people_files_balance_memory_and_why) {
    Job job = options_for("llama-tp4-legacy-bf16");
    job.run.plan.max_shard_size = 100'000;
    job.run.memory_limit = Bytes{8} << 20U;
    const auto buffer_bytes = planned(job)["buffer_bytes"].get<Bytes>();
    EXPECT_LE(buffer_bytes, *job.run.memory_limit);
    const std::string buffers = "buffers of a rank      " + human_bytes(buffer_bytes) + "\n";
    job.run.json = false;
    const std::string text = printed_plan(job);
    for (const char* part :
         {"recipe                 llama\n", "output                 4 files, 39 tensors, ",
          "strategy               direct: one rank\n", "busiest / mean 1.000\n",
          "metadata of a rank     ", "writers of a file      at most 1, mean 1.000\n",
          "model-00001-of-00004.safetensors", "model.safetensors.index.json", buffers.c_str(),
          "  ignored rng_state", "would write  4 files, 39 tensors, ", "fits         unknown: "}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
}

TEST(PrintPlan, asks_for_a_config_and_checks_it) {
    Job job = options_for("llama-tp4-legacy-bf16");
    job.model.hf_config.reset();
    const std::string directory = (job.inputs.front().directory / "iter_0000010").string();
    EXPECT_EQ(test::error_text([&] { printed_plan(job); }),
              "usage: the checkpoint in " + directory +
                  " has no HuggingFace config.json beside it; pass --hf_config DIR: the directory "
                  "with the trained model's config.json");
    job.model.hf_config = "/nowhere";
    EXPECT_EQ(test::error_text([&] { printed_plan(job); }),
              "usage: --hf_config: there is no file /nowhere/config.json; check the path");
    job.model.hf_config = kData / "mixtral-ep2-pp2-legacy-bf16/hf";
    EXPECT_EQ(test::error_text([&] { printed_plan(job); }),
              "mismatch: this config.json is another model's: intermediate_size 32, the "
              "checkpoint's args say ffn_hidden_size 96; rope_parameters.rope_theta 1000000, "
              "they say "
              "rotary_base 10000 [file " +
                  (*job.model.hf_config / "config.json").string() +
                  "]; give the trained model's config.json with --hf_config DIR");
}

TEST(PrintPlan, takes_the_config_by_its_directory_or_its_file) {
    Job job = options_for("llama-tp4-legacy-bf16");
    const auto hash = planned(job)["hash"];
    *job.model.hf_config /= "config.json";
    EXPECT_EQ(planned(job)["hash"], hash);
    // verl's layout brings its own.
    Job own = options_for("verl-qwen3-tp2-pp2-torchdist-bf16");
    own.model.hf_config.reset();
    EXPECT_EQ(planned(own)["recipe"], "qwen3");
}

std::vector<std::string> warnings_of(const Job& job) {
    std::vector<std::string> codes;
    const ordered_json plan = planned(job);
    for (const auto& warning : plan["warnings"]) {
        codes.push_back(warning["code"]);
    }
    return codes;
}

TEST(PrintPlan, warns_alike_whatever_the_format) {
    using List = std::vector<std::string>;
    for (const auto* const fixture : {"megatron/llama-tp4-legacy-bf16", "torch/dcp_w2_bf16_qwen2",
                                      "torch/fsdp1_w2_fp32_llama"}) {
        const fs::path data = fs::path(SHARDWELD_TEST_DATA) / fixture;
        const test::TemporaryDirectory place;
        const fs::path config = fs::exists(data / "hf") ? data / "hf" : data / "source/huggingface";
        fs::copy(config / "config.json", place.path());
        Job job;
        job.inputs.front().directory = data / "source";
        job.model.hf_config = place.path();
        job.run.json = true;
        EXPECT_EQ(warnings_of(job), List{"tokenizer_missing"}) << fixture;
        place.put("tokenizer.json", "{}");
        EXPECT_EQ(warnings_of(job), List{}) << fixture;
        const models::Config model =
            models::Config::parse(test::content_of(place.path() / "config.json"), "");
        job.model.recipe = place.put(
            "mine.recipe", "recipe mine\nextends " + *model.text("model_type") +
                               "\nmatch @model_type = \"" + *model.text("model_type") + "\"\n");
        EXPECT_EQ(warnings_of(job), List{"recipe_unverified"}) << fixture;
    }
}

TEST(PrintPlan, uses_a_recipe_file_and_warns_that_it_is_unverified) {
    const test::TemporaryDirectory place;
    Job job = options_for("llama-tp4-legacy-bf16");
    place.put("tokenizer.model");
    fs::copy(*job.model.hf_config / "config.json", place.path());
    job.model.hf_config = place.path();
    job.model.recipe =
        place.put("mine.recipe", "recipe mine\nextends llama\nmatch @model_type = \"llama\"\n");
    EXPECT_EQ(planned(job)["recipe"], "mine");
    EXPECT_EQ(warnings_of(job), std::vector<std::string>{"recipe_unverified"});
    job.run.strict = true;
    std::ostringstream out;
    Log log(out, LogLevel::error, true);
    EXPECT_EQ(
        test::error_text([&] { print_plan(*mpi::serial_comm(), job, out, log); }),
        "strict: 1 warning under --strict: the merge would fail; see to what is warned of, or "
        "leave --strict out");
    job.model.recipe = "/nowhere/x.recipe";
    EXPECT_EQ(test::error_text([&] { printed_plan(job); }),
              "usage: --recipe: there is no file /nowhere/x.recipe; check the path");
}

TEST(PlanWarnings, replicas_that_are_compared_in_part_are_told) {
    plan::Plan plan;
    plan.replica_bytes = 1000;
    for (const Bytes compared : {Bytes{0}, Bytes{1000}}) {
        plan.compared_bytes = compared;
        EXPECT_TRUE(sampling_warnings(plan).empty()) << compared;
    }
    plan.compared_bytes = 999;
    const auto warnings = sampling_warnings(plan);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0].code, "replicas_sampled");
}

TEST(PrepareModel, takes_the_head_of_a_value_model_from_flag_or_class) {
    const auto prepared = [](const Job& job) {
        const auto location = formats::locate(job.inputs.front());
        catalogue::Catalogue catalogue = formats::read_catalogue(location);
        return prepare_model(read_model_files(job, location),
                             model_choice(job, job.outputs.front(), true), catalogue);
    };
    EXPECT_TRUE(prepared(options_for("verl-value-llama-tp2-torchdist-bf16")).is_value);
    Job job = options_for("llama-tp4-legacy-bf16");
    EXPECT_FALSE(prepared(job).is_value);
    EXPECT_FALSE(prepared(job).config.changed());
    job.model.is_value = true;
    job.model.is_tied = true;
    EXPECT_TRUE(prepared(job).is_value);
    EXPECT_EQ(prepared(job).config.integer("tie_word_embeddings"), 1);
}

TEST(ModelFiles, survive_the_way_to_other_ranks) {
    ModelFiles files{"/hf", "/hf/config.json", "{}", {{"a.recipe", "recipe a"}, {"b", ""}}};
    files.lost_assets = {"vocab.json (a dangling link)"};
    ByteWriter out;
    out.put(files);
    const auto bytes = out.take();
    ByteReader in(bytes);
    const ModelFiles back = in.get<ModelFiles>();
    EXPECT_TRUE(in.at_end());
    EXPECT_EQ(back.hf_directory, "/hf");
    EXPECT_EQ(back.config_path, "/hf/config.json");
    EXPECT_EQ(back.config_text, "{}");
    ASSERT_EQ(back.recipes.size(), 2U);
    EXPECT_EQ(back.recipes[0].file_name, "a.recipe");
    EXPECT_EQ(back.recipes[0].text, "recipe a");
    EXPECT_EQ(back.recipes[1].text, "");
    EXPECT_EQ(back.lost_assets, files.lost_assets);
}

TEST(Inspect, shows_global_tensors_with_their_shards) {
    Job job = options_for("verl-qwen3-tp2-pp2-torchdist-bf16");
    job.model.hf_config.reset();
    std::ostringstream out;
    EXPECT_EQ(inspected(job, out), 0);
    const auto json = ordered_json::parse(out.str());
    std::vector<std::string> keys;
    for (const auto& [key, value] : json.items()) {
        keys.push_back(key);
    }
    EXPECT_EQ(keys,
              (std::vector<std::string>{"schema", "ok", "dir", "format", "dialect", "hf_config",
                                        "notes", "provenance", "warnings", "facts", "claims",
                                        "files", "tensors", "ignored", "inert_globals"}));
    EXPECT_EQ(json["format"], "megatron torch_dist");
    EXPECT_EQ(json["facts"]["tp"], 2);
    EXPECT_EQ(json["facts"]["pp"], 2);
    const std::string config = json["hf_config"];
    EXPECT_TRUE(config.ends_with("huggingface/config.json")) << config;
    std::map<std::string, ordered_json> tensors;
    for (const auto& tensor : json["tensors"]) {
        tensors[tensor["name"]] = tensor;
    }
    const auto& qkv = tensors.at("decoder.layers.self_attention.linear_qkv.weight");
    EXPECT_EQ(qkv["local"], false);
    EXPECT_EQ(qkv["shards"], 8);
    EXPECT_EQ(qkv["shape"].dump(), "[4,256,64]");
    EXPECT_EQ(qkv["dtype"], "bfloat16");
}

TEST(Inspect, shows_local_shards_with_their_ranks) {
    Job job = options_for("llama-tp4-legacy-bf16");
    std::ostringstream out;
    EXPECT_EQ(inspected(job, out), 0);
    const auto json = ordered_json::parse(out.str());
    const auto& first = json["tensors"][1];
    EXPECT_EQ(
        first.dump(),
        R"({"name":"decoder.layers.0.mlp.linear_fc1.layer_norm_weight","dtype":"bfloat16",)"
        R"("shape":[64],"local":true,"shards":4,"replicas":0,"bytes":512,"replica_bytes":0,"ranks":[)"
        R"({"tp":0,"pp":0,"vpp":0,"ep":0,"etp":0},{"tp":1,"pp":0,"vpp":0,"ep":0,"etp":1},)"
        R"({"tp":2,"pp":0,"vpp":0,"ep":0,"etp":2},{"tp":3,"pp":0,"vpp":0,"ep":0,"etp":3}]})");
    job.run.json = false;
    job.run.is_whole = true;
    job.model.hf_config.reset();
    std::ostringstream text;
    EXPECT_EQ(inspected(job, text), 0);
    EXPECT_NE(text.str().find("none: a merge needs --hf_config\n"), std::string::npos);
    EXPECT_NE(text.str().find("shape (of a shard)"), std::string::npos);
    EXPECT_NE(text.str().find("tp0 etp0, tp1 etp1, ...\n"), std::string::npos) << text.str();
    EXPECT_NE(text.str().find("\nignored\n  *._extra_state"), std::string::npos);
}

/// What inspect tells people.
std::string inspected(const Job& asked) {
    Job job = asked;
    job.run.json = false;
    std::ostringstream out;
    EXPECT_EQ(inspected(job, out), 0);
    return out.str();
}

TEST(Inspect, tells_people_the_model_its_parts_its_ranks_and_what_to_do) {
    Job job = options_for("llama-tp2-pp2-vpp2-legacy-bf16");
    job.merge_words = {"--local_dir", "a b", "--target_dir", "OUT"};
    const std::string text = inspected(job);
    for (const char* part :
         {"model        LlamaForCausalLM (llama)\n", "recipe       llama\n", "\nwould write  ",
          "parameters in 39 tensors, 311 kB\n",
          "rank files (#: present), pp 2 x tp 2\n  pp0 ##\n  pp1 ##\n", "  attention ",
          "  layers.{0-3}",
          "merge it with\n  shardweld merge --local_dir 'a b' --target_dir OUT\n"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
    // A few lines for each layer, not for all.
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 50) << text;
}

TEST(Inspect, tells_why_a_checkpoint_cannot_be_merged_as_it_is) {
    Job job = options_for("llama-tp4-legacy-bf16");
    job.model.hf_config.reset();
    EXPECT_NE(inspected(job).find("a merge would be refused: the checkpoint in "),
              std::string::npos);
    job.model.hf_config = kData / "mixtral-ep2-pp2-legacy-bf16/hf";
    const std::string text = inspected(job);
    EXPECT_NE(text.find("model        MixtralForCausalLM (mixtral)\n"), std::string::npos) << text;
    EXPECT_NE(text.find("this config.json is another model's: "), std::string::npos) << text;
}

TEST(Inspect, tells_how_far_it_is_as_plan_does) {
    Job job = options_for("llama-tp4-legacy-bf16");
    job.run.progress = ProgressStyle::json;
    const std::unique_ptr<mpi::Comm> comm = mpi::serial_comm();
    for (const bool is_plan : {false, true}) {
        std::ostringstream out;
        std::ostringstream messages;
        Log log(messages, LogLevel::error, true);
        if (is_plan) {
            print_plan(*comm, job, out, log);
        } else {
            inspect(*comm, job, out, log);
        }
        EXPECT_NE(messages.str().find(R"("phase":"reading metadata","done":0,"total":4)"),
                  std::string::npos)
            << messages.str();
    }
}

TEST(Inspect, shows_the_ranks_that_are_there_where_one_is_missing) {
    const test::TemporaryDirectory place;
    fs::copy(kData / "llama-tp4-legacy-bf16/source", place.path(), fs::copy_options::recursive);
    fs::remove_all(place.path() / "iter_0000010/mp_rank_02");
    Job job;
    job.inputs.front().directory = place.path();
    std::ostringstream out;
    EXPECT_NE(test::error_text([&] { inspected(job, out); }).find("mp_rank_02"), std::string::npos);
    EXPECT_EQ(out.str(), "rank files (#: present, X: missing), tp 4\n  0 ##X#\n");
    job.run.json = true;
    std::ostringstream json;
    EXPECT_NE(test::error_text([&] { inspected(job, json); }), "");
    EXPECT_EQ(json.str(), "");
}

TEST(Advice, plans_for_more_ranks_until_that_hardly_helps) {
    const ordered_json advice = planned(options_for("llama-tp4-legacy-bf16"))["advice"];
    EXPECT_EQ(advice["rates"], "assumed");
    // Starting takes longer than all else of so small a model.
    EXPECT_EQ(advice["ranks"], 1);
    EXPECT_EQ(advice["nodes"], 1);
    ASSERT_EQ(advice["forecasts"].size(), 3U) << advice;
    EXPECT_EQ(advice["forecasts"][2]["ranks"], 4);
    Job job = options_for("llama-tp4-legacy-bf16");
    job.run.n_ranks = 7;
    EXPECT_EQ(planned(job)["advice"]["forecasts"].back()["ranks"], 7);
}

TEST(Recipes, lists_all_and_prints_one) {
    Job job;
    std::ostringstream list;
    EXPECT_EQ(recipes(job, list), 0);
    for (const char* row :
         {"\nqwen3_moe ", "\nllama ", " llama, mistral, ministral ", "  Megatron  FSDP "}) {
        EXPECT_NE(list.str().find(row), std::string::npos) << list.str();
    }
    EXPECT_NE(list.str().find("dialects: hf_module megatron_core olmo_core torchtitan"),
              std::string::npos);
    job.topic = "qwen3_moe";
    std::ostringstream one;
    EXPECT_EQ(recipes(job, one), 0);
    EXPECT_NE(one.str().find("recipe qwen3_moe"), std::string::npos);
    job.topic = "qwen3_mo";
    EXPECT_EQ(test::error_text([&] { recipes(job, one); }),
              "usage: there is no recipe or dialect qwen3_mo; did you mean qwen3_moe? (shardweld "
              "recipes lists them)");
    job.topic = "nobody";
    EXPECT_EQ(test::error_text([&] { recipes(job, one); }),
              "usage: there is no recipe or dialect nobody; shardweld recipes lists them");
}

}  // namespace
}  // namespace shardweld::app
