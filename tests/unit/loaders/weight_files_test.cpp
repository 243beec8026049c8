// Which files each loader takes.
#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

TEST(LoaderCheck, each_loader_takes_its_own_files) {
    Directory model = plain_llama();
    model.weights.push_back({"consolidated.safetensors", "", {{"tok", {DType::bf16, {1}}}}});
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::sglang, 1, 1}), Rules{});
    model.weights.back() = {"other.safetensors", "", tensors_of(model)};
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::tgi, 1, 1}), Rules{"weights!"});
    model.weights.front().name = "model-00001-of-00001.safetensors";
    model.weights.pop_back();
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{});
}

TEST(LoaderCheck, an_index_has_metadata_for_transformers) {
    Directory model = plain_llama();
    model.weights.front().name = "part.safetensors";
    model.index = WeightIndex{"", {{"lm_head.weight", "part.safetensors"}}, false};
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{});
    model.index->has_metadata = true;
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
}

TEST(LoaderCheck, transformers_takes_pickles_of_one_name) {
    Directory model = plain_llama();
    model.weights.clear();
    model.files.erase("model.safetensors");
    model.files.insert("model.bin");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"weights!"});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"weights"});
}

TEST(LoaderCheck, what_of_a_file_is_not_known_is_not_checked) {
    Directory model = plain_llama();
    model.weights.front() = {"model.safetensors", "", {}, "dtype F4 is not supported"};
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"weights"});
}

}  // namespace
}  // namespace shardweld::loaders
