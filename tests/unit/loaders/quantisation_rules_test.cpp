// quantization_config against the tensors.
#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

TEST(LoaderCheck, groups_have_encodings_of_their_own) {
    Directory model = packed_llama();
    replace_in_config(
        model, R"({"group_0": {"weights")",
        R"({"a": {"targets": ["re:.*k_proj"], "weights": {"num_bits": 8, "strategy": "channel"}},
            "group_0": {"targets": ["Linear"], "weights")");
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const std::string name = layer + std::string("self_attn.k_proj.weight");
        tensors_of(model)[name + "_packed"].shape = {256, 64};
        tensors_of(model)[name + "_scale"].shape = {256, 1};
    }
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{});
    tensors_of(model)["model.layers.0.self_attn.q_proj.weight_scale"].shape = {256, 1};
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
}

TEST(LoaderCheck, groups_have_each_quantised_layer) {
    Directory model = packed_llama();
    replace_in_config(model, R"({"weights")", R"({"targets": ["re:.*mlp.*"], "weights")");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"status!"});
    model = packed_llama();
    replace_in_config(model, R"("num_bits": 4, )", "");  // 8, then
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
    model = block_llama();
    replace_in_config(model, R"("quant_method": "fp8", )", "");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"quantised!"});
    model = block_llama();
    replace_in_config(model, R"("fp8")", R"("modelopt")");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"quantised!"});
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"quantised"});
}

TEST(LoaderCheck, experts_are_quantised_together) {
    Directory model = plain_llama();
    model.config_text = block_llama().config_text;
    for (const char* name : {"model.layers.0.mlp.experts.0.up_proj.weight",
                             "model.layers.0.mlp.experts.1.up_proj.weight"}) {
        tensors_of(model)[name] = {DType::f8_e4m3, {128, 128}};
        tensors_of(model)[name + std::string("_scale_inv")] = {DType::f32, {1, 1}};
    }
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    tensors_of(model)["model.layers.0.mlp.experts.1.up_proj.weight"].dtype = DType::bf16;
    tensors_of(model).erase("model.layers.0.mlp.experts.1.up_proj.weight_scale_inv");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"experts!"});
}

TEST(LoaderCheck, packed_weights_say_their_shape_and_have_scales_for_groups) {
    Directory model = packed_llama();
    erase_ending(model, "0.mlp.up_proj.weight_shape");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
    model = packed_llama();
    tensors_of(model)["model.layers.0.mlp.up_proj.weight_scale"].shape = {512, 1};
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"packed!"});
}

}  // namespace
}  // namespace shardweld::loaders
