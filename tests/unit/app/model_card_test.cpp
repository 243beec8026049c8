// README.md of a written model.
#include "app/report/model_card.hpp"

#include <gtest/gtest.h>

namespace shardweld::app {
namespace {

RunReport small_run() {
    RunReport run;
    run.command = "merge";
    run.input.directory = "runs/global_step_100/actor/";
    run.input.format = "fsdp";
    run.input.facts["iteration"] = 100;
    run.recipe = "qwen3";
    return run;
}

OutputReport qwen() {
    OutputReport report;
    report.format = "safetensors";
    report.model_class = "Qwen3ForCausalLM";
    report.size.parameters = 7'240'000'000;
    report.size.dtypes = {DType::bf16};
    report.made_of.emplace().options = {"--dtype bf16"};
    return report;
}

TEST(ModelCard, tells_what_the_model_is_and_what_it_was_made_of) {
    EXPECT_EQ(model_card(small_run(), qwen(), "Qwen/Qwen3-8B"),
              "---\nlibrary_name: transformers\nbase_model: Qwen/Qwen3-8B\ntags:\n- "
              "shardweld\n---\n\n"
              "# Qwen3ForCausalLM\n\n"
              "Made from a training checkpoint by shardweld.\n\n"
              "| | |\n|---|---|\n"
              "| class | `Qwen3ForCausalLM` |\n"
              "| size | 7.24 billion parameters, bfloat16 |\n"
              "| files | safetensors |\n"
              "| base model | Qwen/Qwen3-8B |\n"
              "| checkpoint | fsdp, iteration 100 |\n"
              "| recipe | qwen3 |\n"
              "| command | `shardweld merge --dtype bf16` |\n"
              "| checks | every element is written once, and every stored byte is written or "
              "listed with its reason |\n");
}

TEST(ModelCard, names_no_directory_as_the_base_model) {
    for (const char* name : {"/models/qwen", "./qwen", "models/a/b", "qwen", "a/b: c"}) {
        EXPECT_EQ(model_card(small_run(), qwen(), name).find("base"), std::string::npos) << name;
    }
}

TEST(ModelCard, counts_tensors_with_values_that_are_no_numbers) {
    OutputReport report = qwen();
    report.odd.emplace();
    EXPECT_NE(model_card(small_run(), report, "").find("; no value is NaN or infinite |"),
              std::string::npos);
    report.odd->push_back({"w", 3});
    EXPECT_NE(
        model_card(small_run(), report, "").find("; values of 1 tensor are NaN or infinite |"),
        std::string::npos);
}

TEST(ModelCard, keeps_names_of_files_from_meaning_anything) {
    RunReport run = small_run();
    run.recipe = "a|<b>_c\n";
    EXPECT_NE(model_card(run, qwen(), "").find("| recipe | a\\|\\<b>\\_c"), std::string::npos)
        << model_card(run, qwen(), "");
}

}  // namespace
}  // namespace shardweld::app
