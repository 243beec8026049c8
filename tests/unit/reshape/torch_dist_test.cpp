// Chunks of whole tensors, the files they are in, and what lies beside them.
#include "reshape/torch_dist.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "models/symbols.hpp"
#include "reshape/arrange.hpp"
#include "shardweld/error.hpp"

namespace shardweld::reshape {
namespace {

using Shape = std::vector<Index>;

class ReshapeTorchDist : public testing::Test {
  protected:
    ReshapeTorchDist()
        : library_(models::RecipeLibrary::load()),
          dialect_(*library_.find_dialect("megatron_core")),
          config_(models::Config::parse(
              R"({"model_type": "qwen3_moe", "num_attention_heads": 4, "num_experts": 2,
                  "num_hidden_layers": 3})",
              "config.json")) {}

    [[nodiscard]] Arrangement arrangement(const std::string& to = "torch_dist") const {
        const Destination destination = parse_destination(to);
        const models::Recipe& recipe = models::recipe_for(library_, config_);
        return arrangement_of(
            destination, models::Symbols(recipe, dialect_, config_, facts_of(destination), {}));
    }

    [[nodiscard]] std::vector<plan::TensorPiece> pieces(const std::string& name,
                                                        const Shape& shape) const {
        for (const models::Line& line : dialect_.store) {
            const auto captures = line.name.match(name);
            if (captures && line.layout.dims.size() == shape.size()) {
                return arrangement().pieces(line, *captures, shape);
            }
        }
        ADD_FAILURE() << "no line for " << name;
        return {};
    }

    [[nodiscard]] std::string names(const std::string& name, const Shape& shape) const {
        return joined(pieces(name, shape), " ", plan::piece_name<plan::TensorPiece>);
    }

  private:
    models::RecipeLibrary library_;
    const models::Dialect& dialect_;
    models::Config config_;
};

TEST_F(ReshapeTorchDist, has_a_chunk_for_each_layer_and_expert) {
    EXPECT_EQ(names("decoder.layers.self_attention.linear_proj.weight", {3, 8, 8}),
              "decoder.layers.self_attention.linear_proj.weight[0, 0, 0] "
              "decoder.layers.self_attention.linear_proj.weight[1, 0, 0] "
              "decoder.layers.self_attention.linear_proj.weight[2, 0, 0]");
    EXPECT_EQ(names("decoder.layers.5.self_attention.linear_proj.weight", {8, 8}),
              "decoder.layers.5.self_attention.linear_proj.weight[0, 0]");
    EXPECT_EQ(names("output_layer.weight", {256, 8}), "output_layer.weight[0, 0]");
    EXPECT_EQ(names("decoder.layers.mlp.router.weight", {2, 4, 8}),
              "decoder.layers.mlp.router.weight[0, 0, 0] "
              "decoder.layers.mlp.router.weight[1, 0, 0]");
    const auto experts =
        pieces("decoder.layers.mlp.experts.experts.linear_fc2.weight", {3, 2, 8, 4});
    ASSERT_EQ(experts.size(), 6U);
    EXPECT_EQ(plan::piece_name(experts[3]),
              "decoder.layers.mlp.experts.experts.linear_fc2.weight[1, 1, 0, 0]");
    EXPECT_EQ(experts[3].box[1].extent, 1);
    EXPECT_EQ(experts[3].box[2].extent, 8);
}

TEST_F(ReshapeTorchDist, fills_files_by_size) {
    std::vector<PlacedTensor> placed;
    for (const char* name : {"c", "a", "b"}) {
        placed.push_back({{1500000000}, {{"", {name}, {{0, 1500000000}}}}});
    }
    placed.push_back({{10}, {{"", {"a2"}, {{0, 10}}}}});
    for (std::uint32_t i = 0; i < placed.size(); ++i) {
        placed[i].pieces.front().target = i;
    }
    const outputs::TrainingSave save = arrangement().save(placed, nullptr);
    EXPECT_EQ(save.tensors[1].file, "release/__0_0.distcp");
    EXPECT_EQ(save.tensors[3].file, "release/__0_0.distcp");
    EXPECT_EQ(save.tensors[2].file, "release/__0_1.distcp");
    EXPECT_EQ(save.tensors[0].file, "release/__0_2.distcp");
    EXPECT_EQ(save.tensors[0].whole, Shape{1500000000});
    std::ranges::reverse(placed);
    EXPECT_EQ(arrangement().save(placed, nullptr).tensors[2].file, "release/__0_1.distcp");
}

TEST_F(ReshapeTorchDist, has_the_state_of_each_module) {
    std::vector<PlacedTensor> placed;
    const auto place = [&](const std::string& name, const Shape& shape) {
        for (const plan::TensorPiece& piece : pieces(name, shape)) {
            placed.push_back({shape, {placed_piece(piece, true)}});
        }
    };
    place("decoder.layers.self_attention.linear_proj.weight", {2, 8, 8});
    place("decoder.layers.mlp.experts.experts.linear_fc2.weight", {1, 2, 8, 4});
    place("decoder.final_layernorm.weight", {8});
    place("decoder.layers.self_attention.linear_qkv.layer_norm_weight", {2, 8});
    const outputs::TrainingSave save = arrangement().save(placed, nullptr);
    EXPECT_EQ(joined(save.objects, " ", [](const auto& object) { return object.first; }),
              "decoder.final_layernorm._extra_state/shard_0_1 "
              "decoder.layers.mlp.experts.experts.linear_fc2._extra_state/shard_0.0_1.2 "
              "decoder.layers.mlp.experts.experts.linear_fc2._extra_state/shard_0.1_1.2 "
              "decoder.layers.self_attention.core_attention._extra_state/shard_0_2 "
              "decoder.layers.self_attention.core_attention._extra_state/shard_1_2 "
              "decoder.layers.self_attention.linear_proj._extra_state/shard_0_2 "
              "decoder.layers.self_attention.linear_proj._extra_state/shard_1_2");
}

TEST_F(ReshapeTorchDist, says_what_loaders_ask) {
    const outputs::TrainingSave usual = arrangement().save({}, nullptr);
    EXPECT_TRUE(usual.is_dcp);
    EXPECT_EQ(usual.directory, "release");
    EXPECT_TRUE(usual.objects.empty());
    const auto& common = usual.beside.at("release/common.pt").entries;
    ASSERT_EQ(common.size(), 3U);
    EXPECT_EQ(common[0].key, "checkpoint_version");
    EXPECT_EQ(common[0].value.real, 3.0);
    EXPECT_EQ(common[1].key, "iteration");
    EXPECT_EQ(common[2].key, "content_metadata");
    EXPECT_EQ(common[2].value.entries.size(), 2U);
    ASSERT_EQ(usual.side_files.size(), 2U);
    EXPECT_EQ(usual.side_files[0].name, "release/metadata.json");
    EXPECT_EQ(usual.side_files[0].text,
              R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
              R"("common_backend": "torch", "common_backend_version": 1})");
    EXPECT_EQ(usual.side_files[1].name, "latest_checkpointed_iteration.txt");
    EXPECT_EQ(usual.side_files[1].text, "release");

    const outputs::TrainingSave newer =
        arrangement("torch_dist:era=019,layers=separate").save({}, nullptr);
    EXPECT_TRUE(newer.beside.empty());
    const auto& content = newer.objects.at("common_state/shard_0_1").entries.at(2).value.entries;
    EXPECT_EQ(content.back().key, "non_homogeneous_layers");
    EXPECT_EQ(newer.side_files[0].text,
              R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1})");
}

}  // namespace
}  // namespace shardweld::reshape
