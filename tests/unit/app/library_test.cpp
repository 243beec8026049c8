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

struct LibraryTest : testing::Test {
    Request request() const {
        Request wanted;
        wanted.inputs = {kCase / "source"};
        wanted.options = {{"hf_config", kCase / "hf"},
                          {"target_dir", place.path() / "model"},
                          {"no_fsync", "true"}};
        return wanted;
    }
    /// The code and the message of what the call throws.
    std::string refusal(const Request& wanted) const {
        try {
            (void)merge(alone, wanted);
        } catch (const Error& error) {
            return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
        }
        return "no error";
    }

    RankGroup alone = serial();
    test::TemporaryDirectory place;
};

TEST_F(LibraryTest, merges_without_mpi_and_tells_what_it_does) {
    Heard heard;
    Request wanted = request();
    wanted.options["report"] = place.path() / "report.json";
    const MergeReport report = merge(alone, wanted, heard);
    EXPECT_TRUE(report.is_complete());
    ASSERT_EQ(report.outputs.size(), 1U);
    const WrittenOutput& output = report.outputs.front();
    EXPECT_EQ(output.files, std::vector<std::string>{"model.safetensors"});
    EXPECT_EQ(output.tensors, 39U);
    EXPECT_FALSE(output.root.empty());
    EXPECT_NE(output.json.find("\"root\": \"" + output.root), std::string::npos);
    EXPECT_GT(test::content_of(output.directory / "model.safetensors").size(), output.tensor_bytes);
    EXPECT_FALSE(heard.messages.empty());
    const auto moved = std::ranges::find_if(heard.phases, [](const PhaseProgress& state) {
        return state.phase == "moving tensors" && state.done == state.total && state.total > 0;
    });
    EXPECT_NE(moved, heard.phases.end());
}

TEST_F(LibraryTest, writes_several_outputs_of_one_read) {
    Request wanted = request();
    wanted.also = {{{"target_dir", place.path() / "half"}, {"dtype", "fp16"}}};
    const MergeReport report = merge(alone, wanted);
    ASSERT_EQ(report.outputs.size(), 2U);
    EXPECT_EQ(report.outputs[1].directory, place.path() / "half");
    EXPECT_EQ(report.outputs[0].tensor_bytes, report.outputs[1].tensor_bytes);
    EXPECT_NE(test::content_of(place.path() / "half/config.json").find("float16"),
              std::string::npos);
}

TEST_F(LibraryTest, writes_training_checkpoints) {
    Request wanted = request();
    wanted.also = {{{"target_dir", place.path() / "ranks"}, {"to", "fsdp:world=2"}}};
    const MergeReport beside = merge(alone, wanted);
    ASSERT_EQ(beside.outputs.size(), 2U);
    EXPECT_EQ(beside.outputs[0].files, std::vector<std::string>{"model.safetensors"});
    EXPECT_EQ(beside.outputs[1].files.size(), 2U);
    wanted.also.clear();
    wanted.options["target_dir"] = place.path() / "alone";
    wanted.options["to"] = "fsdp:world=2";
    EXPECT_EQ(merge(alone, wanted).outputs.front().root, beside.outputs[1].root);
    wanted.options["target_dir"] = place.path() / "none";
    wanted.options["to"] = "fsdp:world=x";
    EXPECT_NE(refusal(wanted).find("2: "), std::string::npos);
}

TEST_F(LibraryTest, makes_one_model_of_several_checkpoints) {
    Request wanted = request();
    (void)merge(alone, wanted);
    const std::string own = test::content_of(place.path() / "model/model.safetensors");
    wanted.inputs.push_back(wanted.inputs.front());
    wanted.options["target_dir"] = place.path() / "average";
    (void)merge(alone, wanted);
    EXPECT_EQ(test::content_of(place.path() / "average/model.safetensors"), own);
    wanted.options["target_dir"] = place.path() / "base";
    wanted.options["task_arithmetic"] = kCase / "source";
    wanted.options["scale"] = "0.5,2";
    (void)merge(alone, wanted);
    EXPECT_EQ(test::content_of(place.path() / "base/model.safetensors"), own);
}

TEST_F(LibraryTest, stops_when_it_is_asked_to) {
    std::stop_source source;
    Request wanted = request();
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
    Request wanted = request();
    wanted.options.erase("target_dir");
    EXPECT_EQ(refusal(wanted), "2: no output is given");
    wanted = request();
    wanted.inputs.clear();
    EXPECT_EQ(refusal(wanted), "2: no checkpoint is given");
    wanted = request();
    wanted.options["average_weights"] = "1";
    EXPECT_EQ(refusal(wanted).substr(0, 3), "2: ");
    wanted = request();
    wanted.options["json"] = "true";
    EXPECT_EQ(refusal(wanted), "2: a request of merge takes no option json");
    wanted = request();
    wanted.options["local_dir"] = "a";
    EXPECT_EQ(refusal(wanted), "2: a request of merge takes no option local_dir");
    wanted = request();
    wanted.options["done"] = "a";
    EXPECT_EQ(refusal(wanted), "2: a request of merge takes no option done");
    wanted = request();
    wanted.options["dtype"] = "";
    EXPECT_EQ(refusal(wanted), "2: the option dtype has no value");
    wanted = request();
    wanted.also = {{{"target_dir", place.path() / "half"}, {"strict", "true"}}};
    EXPECT_EQ(refusal(wanted), "2: an output beside the first has no strict of its own");
    wanted.also = {{{"dtype", "fp16"}}};
    EXPECT_EQ(refusal(wanted), "2: an output has no directory");
    wanted = request();
    wanted.options["strict"] = "yes";
    EXPECT_EQ(refusal(wanted), "2: the option strict is \"true\" or not given, not yes");
    wanted = request();
    wanted.options["lora"] = "melt";
    EXPECT_EQ(refusal(wanted), "2: invalid value 'melt' for --lora (choose split, fold or drop)");
    wanted = request();
    wanted.inputs = {place.path() / "nothing"};
    EXPECT_EQ(refusal(wanted).substr(0, 3), "3: ");
    EXPECT_FALSE(fs::exists(place.path() / "model"));
}

TEST_F(LibraryTest, looks_at_checkpoints_and_models) {
    Heard heard;
    const Examination stored = examine(alone, "inspect", {{kCase / "source"}}, heard);
    EXPECT_TRUE(stored.is_good);
    EXPECT_NE(stored.json.find("\"megatron legacy\""), std::string::npos);
    Request on_many = request();
    on_many.options["ranks"] = "16";
    const Examination planned = examine(alone, "plan", on_many, heard);
    EXPECT_TRUE(planned.is_good);
    EXPECT_NE(planned.json.find("\"ranks\": 16"), std::string::npos) << planned.json.substr(0, 400);

    Request wanted = request();
    wanted.options["report"] = place.path() / "report.json";
    (void)merge(alone, wanted);
    const fs::path model = place.path() / "model";
    Request tested = request();
    tested.options["test_hf_dir"] = model;
    EXPECT_TRUE(examine(alone, "test", tested, heard).is_good);
    const Request written{{model}, {{"report", place.path() / "report.json"}}};
    EXPECT_TRUE(examine(alone, "verify", written, heard).is_good);
    EXPECT_TRUE(examine(alone, "diff", {{model}, {{"test_hf_dir", model}}}, heard).is_good);
    std::fstream file(model / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
    file.close();
    const Examination damaged = examine(alone, "verify", written, heard);
    EXPECT_FALSE(damaged.is_good);
    EXPECT_NE(damaged.why.find("1 difference"), std::string::npos) << damaged.why;
    EXPECT_NE(damaged.json.find("\"differences\""), std::string::npos);
    EXPECT_FALSE(examine(alone, "test", tested, heard).is_good);
    EXPECT_THROW((void)examine(alone, "clean", written, heard), Error);
}

}  // namespace
}  // namespace shardweld
