// What a merge says at its end, and what is kept of how it was started.
#include "app/report/summary.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/report.hpp"

namespace shardweld::app {
namespace {

Report small_report() {
    Report report;
    report.n_ranks = 1;
    report.hosts = {"a"};
    report.input.n_files = 1;
    report.tensors.push_back(
        {"w", DType::bf16, {1000, 2000}, "model.safetensors", 0, 4'000'000, "", {}});
    report.files.push_back({"model.safetensors", 4'000'100, {}});
    report.side_files = {"config.json", "tokenizer.json"};
    return report;
}

std::vector<Phase> phases() {
    return {{"execute", 1.5, 1, 4'000'000, 4'000'000, 0}, {"publish", 0.5, 0, 0, 0, 0}};
}

std::string text_of(const Report& report, const Finished& finished) {
    return summary_text(report, report, phases(), finished);
}

TEST(Summary, tells_the_model_its_files_the_time_and_what_comes_next) {
    EXPECT_EQ(text_of(small_report(), {"out", "r.json", "LlamaForCausalLM", "", true}),
              "wrote out: LlamaForCausalLM, 2 million parameters, bfloat16\n"
              "  files: 4.00 MB, 1 tensor in 1 file; beside them config.json, tokenizer.json\n"
              "  time: 2.0 s with 1 rank, 2.00 MB/s; read 4.00 MB from 1 shard file, sent 0 B\n"
              "  warnings: none\n"
              "  next: shardweld verify out --report r.json\n"
              "        python3 -c 'from transformers import AutoModelForCausalLM as M; "
              "M.from_pretrained(\"out\")'");
}

TEST(Summary, says_that_there_is_no_tokenizer_and_counts) {
    Report report = small_report();
    report.side_files = {"config.json"};
    report.n_ranks = 4;
    report.hosts = {"a", "a", "b", "b"};
    report.warnings = {{"x", "", "odd"}, {"y", "", "odder"}};
    const std::string text = text_of(report, {"o'ut", "", "", "", true});
    EXPECT_NE(text.find("beside them config.json (no tokenizer)"), std::string::npos) << text;
    EXPECT_NE(text.find("with 4 ranks on 2 hosts"), std::string::npos) << text;
    EXPECT_NE(text.find("warnings: 2"), std::string::npos) << text;
    // No command that a shell would read otherwise.
    EXPECT_EQ(text.find("python3"), std::string::npos) << text;
}

TEST(Summary, is_an_object_for_programs) {
    const auto json = nlohmann::json::parse(summary_json(
        small_report(), small_report(), phases(), {"out", "", "LlamaForCausalLM", "", true}));
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

}  // namespace
}  // namespace shardweld::app
