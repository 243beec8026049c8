#include "formats/megatron/numbering.hpp"

#include "catalogue/tensor.hpp"

#include "scratch.hpp"

namespace shardweld::formats::megatron {
namespace {

// A model of files and chunks that hold one tensor per layer.
struct Model {
    std::vector<catalogue::Shard> shards;
    std::vector<catalogue::File> files;
    std::vector<catalogue::Coordinates> places;

    void file(int tp, int pp) {
        files.push_back({"tp" + std::to_string(tp) + "pp" + std::to_string(pp), 1});
        places.push_back({tp, pp, 0, 0, 0});
    }
    void tensor(int vpp, const std::string& name) {
        catalogue::Shard shard;
        shard.name = name;
        shard.at = places.back();
        shard.at.vpp = vpp;
        shard.piece.file = static_cast<std::uint32_t>(files.size() - 1);
        shards.push_back(shard);
    }
    void layers(int vpp, int count, const std::string& stack = "decoder.layers.") {
        for (int i = 0; i < count; ++i) {
            tensor(vpp, stack + std::to_string(i) + ".w");
        }
    }
    std::vector<std::string> numbered(const Pipeline& pipeline) {
        number_layers(shards, files, places, pipeline);
        std::vector<std::string> names;
        for (const auto& shard : shards) {
            names.push_back(shard.name);
        }
        return names;
    }
};

TEST(LayerName, is_found_in_every_stack) {
    const auto text = [](std::string_view name) {
        const auto found = split_layer(name);
        return found ? std::string(found->stack) + "|" + std::to_string(found->layer) + "|" +
                           std::string(found->rest)
                     : std::string("none");
    };
    EXPECT_EQ(text("decoder.layers.3.mlp.w"), "decoder.layers.|3|.mlp.w");
    EXPECT_EQ(text("language_model.encoder.layers.10.w"), "language_model.encoder.layers.|10|.w");
    EXPECT_EQ(text("language_model.transformer.layers.0.w"),
              "language_model.transformer.layers.|0|.w");
    EXPECT_EQ(text("decoder.layers.3.mlp.experts.local_experts.7.w"),
              "decoder.layers.|3|.mlp.experts.local_experts.7.w");
    for (const char* name : {"decoder.final_layernorm.weight", "mtp.layers.0.transformer_layer.w",
                             "mtp.layers.0.mtp_model_layer.mlp.w", "visual.blocks.0.w",
                             "decoder.layers.3", "decoder.layers.x.w", "my_decoder.layers.0.w"}) {
        EXPECT_EQ(text(name), "none") << name;
    }
}

TEST(Numbering, follows_uneven_stages) {
    Model model;
    for (const int count : {1, 3, 0, 2}) {
        model.file(0, static_cast<int>(model.files.size()));
        model.layers(0, count);
        model.tensor(0, "mtp.layers.0.transformer_layer.w");
    }
    EXPECT_EQ(model.numbered({4, 1, 6}),
              (std::vector<std::string>{"decoder.layers.0.w", "mtp.layers.0.transformer_layer.w",
                                        "decoder.layers.1.w", "decoder.layers.2.w",
                                        "decoder.layers.3.w", "mtp.layers.0.transformer_layer.w",
                                        "mtp.layers.0.transformer_layer.w", "decoder.layers.4.w",
                                        "decoder.layers.5.w", "mtp.layers.0.transformer_layer.w"}));
}

// Chunk v of rank p is stage v * pp + p: rank 0 holds layers 0 and 3, 4.
TEST(Numbering, takes_virtual_stages_in_turn) {
    Model model;
    model.file(0, 0);
    model.layers(0, 1);
    model.layers(1, 2);
    model.file(0, 1);
    model.layers(0, 2);
    model.layers(1, 1);
    EXPECT_EQ(model.numbered({2, 2, 6}),
              (std::vector<std::string>{"decoder.layers.0.w", "decoder.layers.3.w",
                                        "decoder.layers.4.w", "decoder.layers.1.w",
                                        "decoder.layers.2.w", "decoder.layers.5.w"}));
}

TEST(Numbering, keeps_stacks_apart) {
    Model model;
    model.file(0, 0);
    model.layers(0, 3, "vision_model.decoder.layers.");
    model.layers(0, 1, "language_model.decoder.layers.");
    model.file(0, 1);
    model.layers(0, 1, "language_model.decoder.layers.");
    EXPECT_EQ(model.numbered({2, 1, 2}),
              (std::vector<std::string>{
                  "vision_model.decoder.layers.0.w", "vision_model.decoder.layers.1.w",
                  "vision_model.decoder.layers.2.w", "language_model.decoder.layers.0.w",
                  "language_model.decoder.layers.1.w"}));
}

TEST(Numbering, refuses_a_total_that_args_contradict) {
    Model model;
    model.file(0, 0);
    model.layers(0, 2);
    model.file(0, 1);
    model.layers(0, 1);
    expect_error(ErrorCode::mismatch,
                 "args.num_layers is 4 but the files hold 3 of decoder.layers.: stage 0 has 2, "
                 "stage 1 has 1",
                 [&] {
                     model.numbered({2, 1, 4});
                 });
    EXPECT_EQ(model.numbered({2, 1, std::nullopt}).back(), "decoder.layers.2.w");
}

TEST(Numbering, refuses_ranks_of_a_stage_with_different_layers) {
    Model model;
    model.file(0, 0);
    model.layers(0, 2);
    model.file(1, 0);
    model.layers(0, 1);
    expect_error(ErrorCode::mismatch,
                 "tp0pp0 holds 2 layers up to 1 of decoder.layers. but tp1pp0, of the same "
                 "pipeline stage, holds 1 layers up to 0",
                 [&] {
                     model.numbered({1, 1, std::nullopt});
                 });
    Model empty;
    empty.file(0, 0);
    empty.layers(0, 1);
    empty.file(1, 0);
    expect_error(ErrorCode::mismatch, "holds no layers", [&] {
        empty.numbered({1, 1, std::nullopt});
    });
}

TEST(Numbering, refuses_absurd_numbers) {
    Model model;
    model.file(0, 0);
    model.tensor(0, "decoder.layers.9223372036854775807.w");
    expect_error(ErrorCode::corrupt, "layer number out of bounds", [&] {
        model.numbered({1, 1, std::nullopt});
    });
}

}  // namespace
}  // namespace shardweld::formats::megatron
