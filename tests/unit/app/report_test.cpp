#include "app/report/report.hpp"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/report/report_json.hpp"
#include "app/runtime/version.hpp"
#include "catalogue/catalogue.hpp"
#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

using nlohmann::ordered_json;

/// Two tensors of one file, made of three files' elements.
plan::Plan small_plan(int n_ranks) {
    const auto whole = [](std::uint32_t file, Index begin, Index extent) {
        plan::Operand operand;
        operand.file = file;
        operand.copy = {0, begin, {{extent, 1, 1}}};
        return operand;
    };
    std::vector<plan::Target> targets(2);
    targets[0] = {{"a.weight", DType::bf16, {2, 4}}, DType::bf16};
    targets[0].operands = {whole(2, 0, 4), whole(0, 4, 4)};
    targets[0].replicas = {whole(1, 0, 4)};
    targets[1] = {{"b.bias", DType::f32, {3}}, DType::f32};
    targets[1].operands = {whole(1, 0, 3)};
    plan::JobPlan choice;
    choice.strategy = n_ranks > 1 ? plan::Strategy::collective : plan::Strategy::direct;
    return make_plan(targets, {{"f0", 100}, {"f1", 100}, {"f2", 100}},
                     plan::Visibility::everywhere(n_ranks, 3), choice);
}

const std::vector<catalogue::File> kFiles = {{"f0", 100}, {"f1", 100}, {"f2", 100}};

ordered_json json_of(const Report& report) {
    return ordered_json::parse(to_json(report, report));
}

Report full_report() {
    Report report;
    report.command = "shardweld merge";
    report.code = ErrorCode::mismatch;
    report.failure = Error(ErrorCode::mismatch, "it is \"odd\"", "mend it").add_context("file a");
    report.mpi = "Open MPI 4.1";
    report.hosts = {"n1", "n2"};
    report.n_ranks = 2;
    report.circumstances = {"shardweld x", "mpirun -n 2",          "",
                            "/here",       "2026-02-28T23:59:59Z", {{"OMP_X", "1"}}};
    report.target = "out";
    report.model_class = "LlamaForCausalLM";
    report.side_files = {"config.json"};
    catalogue::Catalogue catalogue;
    catalogue.format = "megatron legacy";
    catalogue.facts = {{"tp", 2}};
    catalogue.files = kFiles;
    report.input =
        input_report("/ckpt", catalogue, {catalogue::Standing::proved, {"args in 3 files: rank"}});
    describe_strategy(report, small_plan(1));
    describe_plan(report, small_plan(1), kFiles);
    report.rounds = 3;
    report.phases = {{"execute", 1.5, 0.5, 10, 20, 30}};
    report.ranks.resize(1);
    report.ranks[0].host = "n1";
    report.ranks[0].bytes_read = 7;
    report.ranks[0].peak_bytes = 99;
    report.ledger = {161, 100, 10, 1, {{"rng*", "training state", 2, 50}}};
    report.files = {{"model.safetensors", 7, "ef"}};
    report.odd = {{"t", 1, 2, false, false}};
    report.base = BaseSummary{"/base", 3, 1, 0.5, "t", {"a"}, {}, {"b"}, {"t"}};
    report.quotas = std::vector<std::string>{"user 7"};
    report.warnings = {{"tied_differs", "lm_head.weight", "they differ"}};
    report.root = "abcd";
    return report;
}

TEST(Report, has_the_fields_of_schema_one) {
    const auto json = json_of(full_report());
    std::vector<std::string> keys;
    for (const auto& [key, value] : json.items()) {
        keys.push_back(key);
    }
    EXPECT_EQ(keys, (std::vector<std::string>{
                        "schema",      "tool",     "command", "target",     "model_class", "exit",
                        "environment", "input",    "output",  "published",  "provenance",  "mixed",
                        "recipe",      "plan",     "quotas",  "phases",     "resume",      "crc",
                        "ranks",       "ledger",   "files",   "side_files", "tensors",     "sanity",
                        "base",        "warnings", "root"}));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["tool"], (ordered_json{{"version", version()}, {"git", git_version()}}));
    EXPECT_EQ(json["exit"].dump(),
              R"({"code":6,"name":"mismatch","message":"it is \"odd\"","where":["file a"],)"
              R"("hint":"mend it","detail":""})");
    EXPECT_EQ(json["environment"].dump(),
              R"({"mpi":"Open MPI 4.1","hosts":["n1","n2"],"ranks":2,"command_line":"shardweld x",)"
              R"("launcher":"mpirun -n 2","launcher_unseen":"","started":"2026-02-28T23:59:59Z",)"
              R"("directory":"/here","variables":{"OMP_X":"1"}})");
    EXPECT_EQ(
        json["input"].dump(),
        R"({"dir":"/ckpt","format":"megatron legacy","facts":{"tp":2},"notes":[],"files":3,"bytes":300,"metadata_reads":0,"sha256":[],"stamps":[]})");
    EXPECT_EQ(json["provenance"].dump(),
              R"({"standing":"proved","evidence":["args in 3 files: rank"]})");
    EXPECT_EQ(json["plan"]["strategy"], "direct");
    EXPECT_EQ(json["plan"]["why"], "asked for");
    EXPECT_EQ(json["plan"]["rounds"], 3);
    EXPECT_EQ(json["plan"]["hash"], small_plan(1).hash());
    EXPECT_EQ(json["phases"].dump(), R"([{"name":"execute","wall_s":1.5,"cpu_s":0.5,)"
                                     R"("bytes_read":10,"bytes_written":20,"bytes_sent":30}])");
    EXPECT_EQ(json["ranks"][0]["host"], "n1");
    EXPECT_EQ(json["ranks"][0]["peak_bytes"], 99);
    EXPECT_EQ(json["ranks"][0]["bytes_read"], 7);
    EXPECT_EQ(json["ledger"].dump(),
              R"({"stored":161,"consumed":100,"replica":10,"padding":1,"ignored":[)"
              R"({"pattern":"rng*","reason":"training state",)"
              R"("count":2,"bytes":50}]})");
    EXPECT_EQ(json["warnings"].dump(),
              R"([{"code":"tied_differs","tensor":"lm_head.weight","text":"they differ"}])");
    EXPECT_EQ(json["root"], "abcd");
    EXPECT_EQ(json["target"], "out");
    EXPECT_EQ(json["model_class"], "LlamaForCausalLM");
    EXPECT_EQ(json["quotas"].dump(), R"(["user 7"])");
    EXPECT_EQ(json["files"].dump(), R"([{"name":"model.safetensors","bytes":7,"sha256":"ef"}])");
    EXPECT_EQ(json["sanity"].dump(),
              R"({"checked":true,"tensors":[{"name":"t","nan":1,"inf":2,"all_zero":false,)"
              R"("constant":false,"mostly_zero":false}]})");
    EXPECT_EQ(json["base"].dump(),
              R"({"dir":"/base","compared":3,"equal":1,"max_abs":0.5,"max_tensor":"t",)"
              R"("extra":["a"],"missing":[],"shapes":["b"]})");
}

TEST(Report, says_null_where_nothing_was_done) {
    const auto json = json_of(Report());
    EXPECT_TRUE(json["base"].is_null());
    EXPECT_TRUE(json["quotas"].is_null());
    Report unknown;
    unknown.quotas.emplace();
    EXPECT_TRUE(json_of(unknown)["quotas"].is_null());
    EXPECT_EQ(json["sanity"].dump(), R"({"checked":false,"tensors":[]})");
    Report infinite;
    infinite.base = BaseSummary();
    infinite.base->max_absolute = std::numeric_limits<double>::infinity();
    EXPECT_EQ(json_of(infinite)["base"]["max_abs"], "inf");
}

TEST(Report, says_where_each_tensor_lies_and_comes_from) {
    Report report = full_report();
    execute::Result result;
    result.tensor_digests = {"d0", "d1"};
    report.tensors = tensor_entries(small_plan(1), kFiles, result);
    const auto json = json_of(report);
    // f32 before bf16 inside a file.
    EXPECT_EQ(json["tensors"].dump(),
              R"([{"name":"a.weight","dtype":"bfloat16","shape":[2,4],"file":"model.safetensors",)"
              R"("offset":4108,"bytes":16,"xxh3_128":"d0","sources":["f0","f2"]},)"
              R"({"name":"b.bias","dtype":"float32","shape":[3],"file":"model.safetensors",)"
              R"("offset":4096,"bytes":12,"xxh3_128":"d1","sources":["f1"]}])");
}

TEST(Report, of_a_run_that_failed_early_has_nulls_and_empty_lists) {
    Report report;
    report.code = ErrorCode::not_found;
    const auto json = json_of(report);
    EXPECT_TRUE(json["plan"]["hash"].is_null());
    EXPECT_TRUE(json["root"].is_null());
    EXPECT_EQ(json["tensors"].dump(), "[]");
    EXPECT_EQ(json["exit"]["code"], 3);
}

TEST(Report, keeps_times_out_of_everything_but_phases) {
    Report slow = full_report();
    slow.phases[0].wall_s = 9;
    slow.ranks[0].wall_s = 9;
    slow.ranks[0].read_s = 9;
    auto a = json_of(full_report());
    auto b = json_of(slow);
    EXPECT_NE(a, b);
    a.erase("phases");
    b.erase("phases");
    EXPECT_EQ(a, b);
}

TEST(WriteReport, replaces_an_older_report_and_leaves_no_other_file) {
    const test::TemporaryDirectory place;
    const fs::path path = place.put("report.json", to_json(RunReport(), OutputReport()));
    Report report = full_report();
    report.failure = Error(ErrorCode::mismatch, "bad \xff text");
    write_report(report, report, path, true);
    EXPECT_EQ(ordered_json::parse(test::content_of(path))["exit"]["message"],
              "bad \xef\xbf\xbd text");
    EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), fs::directory_iterator()), 1);
}

TEST(WriteReport, leaves_what_is_no_report) {
    const test::TemporaryDirectory place;
    for (const std::string text : {"PK", "{", R"({"model_type": "llama"})"}) {
        const fs::path path = place.put("other.json", text);
        EXPECT_NE(test::error_text([&] {
                      write_report(RunReport(), OutputReport(), path, true);
                  }).find("left as it is"),
                  std::string::npos)
            << text;
        EXPECT_EQ(test::content_of(path), text);
    }
}

TEST(WriteReport, says_when_it_cannot) {
    EXPECT_EQ(test::error_text([] {
                  write_report(RunReport(), OutputReport(), "/no/such/r.json", true);
              }).substr(0, 33),
              "io: cannot create /no/such/r.json");
}

}  // namespace
}  // namespace shardweld::app
