// What a merge says at its end, and what is kept of how it was started.
#include "app/report/summary.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/report.hpp"

namespace shardweld::app {
namespace {

plan::Target weight(const std::string& name, std::vector<Index> shape) {
    plan::Target target;
    target.name = name;
    target.dtype = DType::bf16;
    target.shape = std::move(shape);
    return target;
}

Report small_report(const std::string& model_class) {
    Report report;
    report.n_ranks = 1;
    report.hosts = {"a"};
    report.input.n_files = 1;
    report.tensors.push_back(
        {"w", DType::bf16, {1000, 2000}, "model.safetensors", 0, 4'000'000, "", {}});
    report.files.push_back({"model.safetensors", 4'000'100, {}});
    report.side_files = {"config.json", "tokenizer.json"};
    report.asked = {"out"};
    report.asked.keeps_report = true;
    report.format = "safetensors";
    report.model_class = model_class;
    report.size = size_of_model({weight("w", {1000, 2000})});
    return report;
}

std::vector<Phase> phases() {
    return {{"execute", 1.5, 1, 4'000'000, 4'000'000, 0}, {"publish", 0.5, 0, 0, 0, 0}};
}

std::string text_of(const Report& report) {
    RunReport run = report;
    run.outputs = {report};
    std::string text;
    for (const Headline& line :
         summary_lines(run, run.outputs.front(), phases(), "4 of 4 input checksums match")) {
        text += line.text() + "\n";
    }
    return text;
}

TEST(Summary, tells_what_was_written_and_leads_to_the_model) {
    EXPECT_EQ(text_of(small_report("LlamaForCausalLM")),
              "wrote: out in 2.0 s: model.safetensors (1 tensor, 4.00 MB), config.json, "
              "tokenizer.json, shardweld_report.json; 4 of 4 input checksums match\n"
              "next: shardweld check out --target vllm && vllm serve out\n");
    // An engine may have a class that transformers has not.
    EXPECT_NE(text_of(small_report("KimiK3ForConditionalGeneration"))
                  .find("next: shardweld check out --target vllm && vllm serve out\n"),
              std::string::npos);
    const std::string text = text_of(small_report("LlamaForTokenClassification"));
    EXPECT_NE(text.find("next: shardweld check out && python3 -c 'from transformers import "
                        "LlamaForTokenClassification as M; M.from_pretrained(\"out\")'\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(
        speed_text(small_report(""), small_report(""), phases()),
        "1 tensor, 4.00 MB in 2.0 s, 2.00 MB/s, with 1 rank, each at most 0 B of memory; read "
        "4.00 MB from 1 shard file, sent 0 B");
}

TEST(Summary, never_leads_to_a_base_without_its_adapter) {
    Report split = small_report("LlamaForCausalLM");
    split.size.adapter = 64;
    const std::string text = text_of(split);
    for (const char* part : {"the base in out is without the adapter; load both:",
                             "PeftModel.from_pretrained(base, \"out/lora_adapter\")",
                             "or merge again with --lora fold, which adds"}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("vllm serve"), std::string::npos) << text;
    split.size.parameters = 0;
    EXPECT_NE(text_of(split).find("from_pretrained(\"the base model\")"), std::string::npos);
    // A base whose class nobody knows: AutoModel's modules have other names than the adapter's.
    split.model_class = "";
    EXPECT_NE(text_of(split).find("AutoModelForCausalLM.from_pretrained("), std::string::npos);
}

TEST(Summary, says_that_there_is_no_tokenizer_and_counts) {
    Report report = small_report("");
    report.side_files = {"config.json"};
    report.files.resize(3, {"more.safetensors", 1, {}});
    report.warnings = {{"x", "", "odd"}, {"y", "", "odder"}};
    report.asked.directory = "o'ut";
    report.asked.keeps_report = false;
    // No command that a shell would read otherwise.
    EXPECT_EQ(text_of(report),
              "wrote: o'ut in 2.0 s: model.safetensors and 2 more (1 tensor, 4.00 MB), config.json "
              "(no tokenizer); 4 of 4 input checksums match; 2 warnings\n"
              "next: shardweld check 'o'\\''ut'\n");
}

TEST(Summary, counts_the_parameters_of_the_model_whatever_is_written) {
    plan::Target codes = weight("codes", {8, 16});
    codes.dtype = DType::i32;
    codes.encode = plan::Encode{{encoding_from("w4a16").value(), 8, 128, 8}};
    plan::Target factor = weight("lora_A", {2, 8});
    factor.file = "lora_adapter/adapter_model.safetensors";
    const ModelSize size = size_of_model({weight("w", {3, 5}), codes, factor});
    EXPECT_EQ(size.parameters, 15 + 8 * 128);
    EXPECT_EQ(model_line("A", size).text(),
              "model: A, 1,039 parameters, w4a16 (1 weight), the others bfloat16; beside it a LoRA "
              "adapter, 16 parameters");
    EXPECT_EQ(model_line("A", size_of_model({factor})).text(),
              "model: LoRA adapter, 16 parameters, bfloat16");
}

TEST(Summary, is_an_object_for_programs) {
    const auto json = nlohmann::json::parse(
        summary_json(RunReport(), small_report("LlamaForCausalLM"), phases()));
    EXPECT_EQ(json["event"], "summary");
    EXPECT_EQ(json["parameters"], 2'000'000);
    EXPECT_EQ(json["has_tokenizer"], true);
    EXPECT_EQ(json["next"].size(), 2U);
}

TEST(Circumstances, hold_what_may_change_a_run_and_no_secret) {
    for (const char* name : {"SLURM_JOB_ID", "OMPI_MCA_pml", "SHARDWELD_X", "OMP_NUM_THREADS"}) {
        EXPECT_TRUE(is_telling(name)) << name;
    }
    for (const char* name :
         {"HF_TOKEN", "SLURM_JWT", "SHARDWELD_TOKEN", "PATH", "UCX_SECRET", "OMPI_MCA_orte_hnp_uri",
          "OMPI_COMM_WORLD_RANK", "AWS_SECRET_ACCESS_KEY"}) {
        EXPECT_FALSE(is_telling(name)) << name;
    }
    ::setenv("SHARDWELD_PROBE", "1", 1);
    const Circumstances found = circumstances_of({"shardweld", "merge", "a b"});
    ::unsetenv("SHARDWELD_PROBE");
    EXPECT_EQ(found.command, "shardweld merge 'a b'");
    EXPECT_EQ(found.variables.at("SHARDWELD_PROBE"), "1");
    EXPECT_FALSE(found.directory.empty());
}

TEST(Circumstances, do_not_invent_a_launcher_that_is_not_seen) {
    const auto unseen = [](std::map<std::string, std::string> variables) {
        for (const auto& [name, value] : variables) {
            ::setenv(name.c_str(), value.c_str(), 1);
        }
        const Circumstances found = circumstances_of({"shardweld", "merge", "a"});
        for (const auto& [name, value] : variables) {
            ::unsetenv(name.c_str());
        }
        EXPECT_EQ(found.launcher, "");
        return found.unseen;
    };
    EXPECT_EQ(unseen({}), "");
    EXPECT_EQ(unseen({{"OMPI_COMM_WORLD_SIZE", "16"}, {"SLURM_STEP_ID", "1"}}),
              "started by mpirun -n 16 on another host; its other options are not known");
    EXPECT_EQ(unseen({{"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_JOB_ID", "71"},
                      {"SLURM_PROCID", "0"}}),
              "started by srun -n 8, step 0 of job 71; its other options are not known");
    EXPECT_EQ(unseen({{"PMI_RANK", "0"}}), "started by a launcher whose command is not known");
}

}  // namespace
}  // namespace shardweld::app
