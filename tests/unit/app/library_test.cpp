#include <algorithm>
#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "shardweld/comm.hpp"
#include "shardweld/error.hpp"
#include "shardweld/examine.hpp"
#include "shardweld/merge.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld {
namespace {

namespace fs = std::filesystem;

const fs::path kCase = fs::path(SHARDWELD_TEST_DATA) / "megatron/llama-tp4-legacy-bf16";

class Heard : public Events {
  public:
    void message(LogLevel level, const std::string& text) override {
        messages.push_back((level == LogLevel::debug ? "debug: " : "") + text);
    }
    void progress(const PhaseProgress& state) override { phases.push_back(state); }

    std::vector<std::string> messages;
    std::vector<PhaseProgress> phases;
};

std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

struct LibraryTest : testing::Test {
    MergeRequest request() const {
        MergeRequest wanted;
        wanted.checkpoints = {kCase / "source"};
        wanted.model_dir = kCase / "hf";
        wanted.outputs = {{.directory = place.path() / "model"}};
        wanted.options = {{"no_fsync", "true"}};
        return wanted;
    }
    /// The code and the message of what the call throws.
    std::string refusal(const MergeRequest& wanted) const {
        try {
            (void)merge(alone, wanted);
        } catch (const Error& error) {
            return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
        }
        return "no error";
    }

    Comm alone = serial();
    test::TemporaryDirectory place;
};

TEST_F(LibraryTest, merges_without_mpi_and_tells_what_it_does) {
    Heard heard;
    MergeRequest wanted = request();
    wanted.report = place.path() / "report.json";
    const MergeReport report = merge(alone, wanted, heard);
    EXPECT_TRUE(report.is_complete());
    ASSERT_EQ(report.outputs.size(), 1U);
    const WrittenOutput& output = report.outputs.front();
    EXPECT_EQ(output.files, std::vector<std::string>{"model.safetensors"});
    EXPECT_EQ(output.tensors, 39U);
    EXPECT_FALSE(output.root.empty());
    EXPECT_NE(output.json.find("\"root\": \"" + output.root), std::string::npos);
    EXPECT_GT(bytes_of(output.directory / "model.safetensors").size(), output.tensor_bytes);
    EXPECT_FALSE(heard.messages.empty());
    const auto moved = std::ranges::find_if(heard.phases, [](const PhaseProgress& state) {
        return state.phase == "moving tensors" && state.done == state.total && state.total > 0;
    });
    EXPECT_NE(moved, heard.phases.end());
}

TEST_F(LibraryTest, writes_several_outputs_of_one_read) {
    MergeRequest wanted = request();
    wanted.outputs.push_back({.directory = place.path() / "half", .dtype = "fp16"});
    const MergeReport report = merge(alone, wanted);
    ASSERT_EQ(report.outputs.size(), 2U);
    EXPECT_EQ(report.outputs[1].directory, place.path() / "half");
    EXPECT_EQ(report.outputs[0].tensor_bytes, report.outputs[1].tensor_bytes);
    EXPECT_NE(bytes_of(place.path() / "half/config.json").find("float16"), std::string::npos);
}

TEST_F(LibraryTest, writes_training_checkpoints) {
    MergeRequest wanted = request();
    wanted.outputs.push_back({.directory = place.path() / "ranks", .to = "fsdp:world=2"});
    const MergeReport beside = merge(alone, wanted);
    ASSERT_EQ(beside.outputs.size(), 2U);
    EXPECT_EQ(beside.outputs[0].files, std::vector<std::string>{"model.safetensors"});
    EXPECT_EQ(beside.outputs[1].files.size(), 2U);
    wanted.outputs = {{.directory = place.path() / "alone", .to = "fsdp:world=2"}};
    EXPECT_EQ(merge(alone, wanted).outputs.front().root, beside.outputs[1].root);
    wanted.outputs = {{.directory = place.path() / "none", .to = "fsdp:world=x"}};
    EXPECT_NE(refusal(wanted).find("2: "), std::string::npos);
}

TEST_F(LibraryTest, makes_one_model_of_several_checkpoints) {
    MergeRequest wanted = request();
    (void)merge(alone, wanted);
    const std::string own = bytes_of(place.path() / "model/model.safetensors");
    wanted.checkpoints.push_back(wanted.checkpoints.front());
    wanted.outputs = {{.directory = place.path() / "average"}};
    (void)merge(alone, wanted);
    EXPECT_EQ(bytes_of(place.path() / "average/model.safetensors"), own);
    wanted.outputs = {{.directory = place.path() / "base"}};
    wanted.options["delta"] = kCase / "source";
    wanted.options["scale"] = "0.5,2";
    (void)merge(alone, wanted);
    EXPECT_EQ(bytes_of(place.path() / "base/model.safetensors"), own);
}

TEST_F(LibraryTest, stops_when_it_is_asked_to) {
    std::stop_source source;
    MergeRequest wanted = request();
    wanted.stop = source.get_token();
    source.request_stop();
    const MergeReport report = merge(alone, wanted);
    EXPECT_FALSE(report.is_complete());
    EXPECT_EQ(report.why_stopped,
              "stopped by the program that called the merge: nothing was written yet");
    EXPECT_FALSE(fs::exists(place.path() / "model"));
    wanted.stop = {};
    EXPECT_TRUE(merge(alone, wanted).is_complete());
}

TEST_F(LibraryTest, refuses_what_makes_no_sense) {
    MergeRequest wanted = request();
    wanted.outputs.clear();
    EXPECT_EQ(refusal(wanted), "2: no output is given");
    wanted = request();
    wanted.checkpoints.clear();
    EXPECT_EQ(refusal(wanted), "2: no checkpoint is given");
    wanted = request();
    wanted.average_weights = {1};
    EXPECT_EQ(refusal(wanted).substr(0, 3), "2: ");
    wanted = request();
    wanted.options["json"] = "true";
    EXPECT_EQ(refusal(wanted), "2: a request of merge takes no option json");
    wanted = request();
    wanted.options["dtype"] = "bf16";
    EXPECT_EQ(refusal(wanted), "2: a request of merge takes no option dtype");
    wanted = request();
    wanted.options["strict"] = "yes";
    EXPECT_EQ(refusal(wanted), "2: the option strict is \"true\" or not given, not yes");
    wanted = request();
    wanted.options["lora"] = "melt";
    EXPECT_EQ(refusal(wanted), "2: invalid value 'melt' for --lora (choose split, fold or drop)");
    wanted = request();
    wanted.checkpoints = {place.path() / "nothing"};
    EXPECT_EQ(refusal(wanted).substr(0, 3), "3: ");
    EXPECT_FALSE(fs::exists(place.path() / "model"));
}

TEST_F(LibraryTest, looks_at_checkpoints_and_models) {
    Heard heard;
    const Examination stored = inspect_checkpoint(alone, {kCase / "source", {}}, heard);
    EXPECT_TRUE(stored.is_good);
    EXPECT_NE(stored.json.find("\"megatron legacy\""), std::string::npos);
    const Examination planned = plan_merge(alone, request(), 16, heard);
    EXPECT_TRUE(planned.is_good);
    EXPECT_NE(planned.json.find("\"ranks\": 16"), std::string::npos) << planned.json.substr(0, 400);

    MergeRequest wanted = request();
    wanted.report = place.path() / "report.json";
    (void)merge(alone, wanted);
    const fs::path model = place.path() / "model";
    EXPECT_TRUE(test_merge(alone, request(), model, heard).is_good);
    EXPECT_TRUE(verify_model(alone, {model, {}}, wanted.report, heard).is_good);
    EXPECT_TRUE(diff_models(alone, {model, {}}, model, heard).is_good);
    std::fstream file(model / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
    file.close();
    const Examination damaged = verify_model(alone, {model, {}}, wanted.report, heard);
    EXPECT_FALSE(damaged.is_good);
    EXPECT_NE(damaged.why.find("1 difference"), std::string::npos) << damaged.why;
    EXPECT_NE(damaged.json.find("\"differences\""), std::string::npos);
    EXPECT_FALSE(test_merge(alone, request(), model, heard).is_good);
}

}  // namespace
}  // namespace shardweld
