#include "publish/model_tree.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "publish/target.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

using test::error_text;
using test::TemporaryDirectory;

constexpr const char* kSavedReport =
    R"({"schema": 1, "tool": {"version": "1", "git": "x"}, "command": "merge"})";

/// What --overwrite says of a target with these files, without its beginning and end.
std::string answer(const std::vector<std::string>& names) {
    const TemporaryDirectory place;
    for (const std::string& name : names) {
        if (name.ends_with('/')) {
            std::filesystem::create_directories(place.path() / "out" / name);
        } else {
            place.put("out/" + name, name == "config.json" ? R"({"model_type": "llama"})"
                                     : name == "r.json"    ? kSavedReport
                                                           : "x");
        }
    }
    std::string text = error_text([&] { (void)checked_target(place.path() / "out", {}, true); });
    const std::string begin =
        "target: the target directory " + (place.path() / "out").string() + " holds ";
    const std::size_t end = text.find(", and --overwrite replaces models only");
    return text.rfind(begin, 0) == 0 && end != std::string::npos
               ? text.substr(begin.size(), end - begin.size())
               : text;
}

TEST(RequireModelOnly, lets_models_be_replaced) {
    const std::vector<std::vector<std::string>> models = {
        {"config.json"},
        {"model.safetensors"},
        // What a merge writes, with its report.
        {"config.json", "generation_config.json", "model-00001-of-00002.safetensors",
         "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json",
         "tokenizer_config.json", "chat_template.jinja", "lora_adapter/adapter_config.json",
         "lora_adapter/adapter_model.safetensors", "r.json"},
        {"model.h5", "config.json"},
        // What lies on the Hub.
        {".gitattributes", "README.md", "LICENSE.txt", "NOTICE", "USE_POLICY.md", "config.json",
         "configuration_deepseek.py", "modeling_deepseek.py", "tokenizer.model", "vocab.json",
         "merges.txt", "special_tokens_map.json", "pytorch_model-00001-of-00002.bin",
         "pytorch_model.bin.index.json", "1_Pooling/config.json", "modules.json",
         "additional_chat_templates/tool.jinja", ".cache/huggingface/download/x.metadata"},
        // What a trainer leaves.
        {"config.json", "model.safetensors", "training_args.bin", "trainer_state.json",
         "all_results.json"},
        {"adapter_config.json", "adapter_model.safetensors", "README.md"},
    };
    for (const auto& model : models) {
        EXPECT_EQ(answer(model), "no error");
    }
    EXPECT_EQ(answer({"./"}), "no error");
}

TEST(RequireModelOnly, names_what_is_no_part_of_a_model) {
    EXPECT_EQ(answer({"config.json", "model.safetensors", "notes.txt", "sub/", "data.bin"}),
              "what does not belong to a model: data.bin, notes.txt, sub/");
    EXPECT_EQ(answer({"config.json", "lora_adapter/thesis.tex", ".ssh/id_rsa"}),
              "what does not belong to a model: .ssh/, lora_adapter/thesis.tex");
    EXPECT_EQ(answer({"config.json", "global_step_10/", "model_world_size_2_rank_0.pt"}),
              "what does not belong to a model: global_step_10/, model_world_size_2_rank_0.pt");
    EXPECT_EQ(answer({"config.json", "other.json"}), "what does not belong to a model: other.json")
        << "a report is one by what it holds";
    EXPECT_EQ(answer({"1", "2", "3", "4", "5", "6", "7"}),
              "what does not belong to a model: 1, 2, 3, 4, 5 and 2 more");
    // Somebody's project.
    EXPECT_EQ(answer({"README.md", "main.py", "requirements.txt"}),
              "nothing of a model (weights, or a config.json with a model_type)");
}

TEST(RequireModelOnly, looks_again_before_something_is_replaced) {
    const TemporaryDirectory place;
    place.put("out/config.json", R"({"model_type": "llama"})");
    auto partial = PartialDirectory::create(place.path() / "out", {}, true);
    place.put("out/notes.txt", "meanwhile");
    EXPECT_NE(
        error_text([&] { partial.commit({}, false); }).find("not belong to a model: notes.txt"),
        std::string::npos);
    EXPECT_EQ(test::content_of(place.path() / "out/notes.txt"), "meanwhile");
}

}  // namespace
}  // namespace shardweld::publish
