#include "formats/megatron/buckets.hpp"

#include "formats/megatron/bucket_space.hpp"
#include "formats/megatron/parameter_order.hpp"

#include "scratch.hpp"

namespace shardweld::formats::megatron {
namespace {

const std::vector<BucketParameter> kThree = {{"first", 200}, {"norm", 16}, {"last", 100}};

/// Bucket and first element of each parameter: "1:0 0:128 0:0".
std::string text_of(const std::vector<BucketPlace>& places) {
    std::string text;
    for (const BucketPlace& place : places) {
        text += (text.empty() ? "" : " ") + std::to_string(place.bucket) + ":" +
                std::to_string(place.begin);
    }
    return text;
}

TEST(Buckets, are_filled_from_the_last_parameter_at_multiples_of_64) {
    EXPECT_EQ(bucket_sizes(kThree, std::nullopt), (std::vector<Index>{392}));
    EXPECT_EQ(text_of(*places_in(kThree, {392})), "0:192 0:128 0:0");
}

TEST(Buckets, are_closed_at_a_size_and_around_shared_parameters) {
    EXPECT_EQ(bucket_sizes(kThree, 100), (std::vector<Index>{100, 264}));
    EXPECT_EQ(text_of(*places_in(kThree, {100, 264})), "1:64 1:0 0:0");
    std::vector<BucketParameter> shared = kThree;
    shared.front().is_shared = true;
    EXPECT_EQ(bucket_sizes(shared, std::nullopt), (std::vector<Index>{192, 200}));
    EXPECT_EQ(text_of(*places_in(shared, {192, 200})), "1:0 0:128 0:0");
}

TEST(Buckets, of_other_sizes_hold_other_parameters) {
    EXPECT_FALSE(places_in(kThree, {391}));
    EXPECT_FALSE(places_in(kThree, {393}));
    EXPECT_FALSE(places_in(kThree, {144, 200, 64}));
    EXPECT_FALSE(places_in(kThree, {}));
    EXPECT_TRUE(places_in({}, {}));
    EXPECT_EQ(text_of(*places_in(kThree, {512}, 128)), "0:192 0:128 0:0");
    EXPECT_FALSE(places_in(kThree, {520}, 128));
    try {
        (void)require_places(kThree, {391}, "buffer 0 of group 1");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        EXPECT_EQ(
            std::string(error.what()),
            "the optimizer's state does not fit the parameters in buffer 0 of group 1: bucket "
            "0 has 391 elements, of which 144 are taken, and first with 200 elements does not "
            "end there");
    }
}

TEST(Buckets, have_keys_that_tell_their_place) {
    const auto key = bucket_key(
        "chained_1.optimizer.distributed.dp_group_idx_3.gbuf_idx_2.dtype_(torch.bfloat16, "
        "torch.float32).bucket_idx_4.exp_avg");
    ASSERT_TRUE(key);
    EXPECT_EQ(key->chain, 1);
    EXPECT_EQ(key->group, 3);
    EXPECT_EQ(key->buffer, 2);
    EXPECT_EQ(key->types, "(torch.bfloat16, torch.float32)");
    EXPECT_EQ(key->bucket, 4);
    EXPECT_EQ(key->state, "exp_avg");
    EXPECT_EQ(
        bucket_key("optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_x.bucket_idx_0.p")->chain,
        -1);
    for (const char* const other :
         {"optimizer.state.exp_avg.x", "optimizer.distributed.dp_group_idx_0.per_bucket_numel",
          "optimizer.distributed.dp_group_idx_.gbuf_idx_0.dtype_x.bucket_idx_0.param",
          "chained_x.optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_x.bucket_idx_0.param"}) {
        EXPECT_FALSE(bucket_key(other)) << other;
    }
}

TEST(ParameterOrder, is_that_of_megatrons_modules) {
    const std::vector<std::string> layer = {"input_layernorm.weight",
                                            "self_attention.linear_proj.weight",
                                            "self_attention.linear_qkv.layer_norm_weight",
                                            "self_attention.linear_qkv.weight",
                                            "self_attention.linear_qkv.bias",
                                            "self_attention.q_layernorm.weight",
                                            "pre_mlp_layernorm.weight",
                                            "mlp.router.weight",
                                            "mlp.experts.experts.linear_fc1.weight",
                                            "mlp.shared_experts.gate_weight",
                                            "mlp.linear_fc1.layer_norm_weight",
                                            "mlp.linear_fc1.weight",
                                            "mlp.linear_fc2.weight"};
    for (std::size_t i = 1; i < layer.size(); ++i) {
        EXPECT_LT(*place_in_layer(layer[i - 1]), *place_in_layer(layer[i])) << layer[i];
    }
    EXPECT_LT(*place_around_layers("embedding.position_embeddings.weight"), 0);
    EXPECT_LT(*place_around_layers("decoder.final_layernorm.weight"),
              *place_around_layers("output_layer.weight"));
}

TEST(ParameterOrder, is_not_guessed) {
    for (const char* const name : {"mixer.A_log", "self_attention.kv_layernorm.weight",
                                   "mlp.experts.experts.linear_fc1.lora", "weight"}) {
        EXPECT_FALSE(place_in_layer(name)) << name;
    }
    EXPECT_FALSE(place_around_layers("mtp.layers.0.enorm.weight"));
    EXPECT_TRUE(is_buffer("decoder.layers.1.mlp.router.expert_bias"));
    EXPECT_FALSE(is_buffer("decoder.layers.1.mlp.router.weight"));
}

}  // namespace
}  // namespace shardweld::formats::megatron
