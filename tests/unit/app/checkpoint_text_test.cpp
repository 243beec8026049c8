// What inspect shows: folded names, grids of ranks, short numbers.
#include "app/report/checkpoint_text.hpp"

#include <gtest/gtest.h>

#include "app/messages/table.hpp"

namespace shardweld::app {
namespace {

StoredRow stored(const std::string& name, std::vector<Index> shape = {2, 2}) {
    return {name, DType::bf16, std::move(shape), false, 1, 0, 8, 0, {}};
}

std::vector<std::string> paths(const std::vector<StoredRow>& rows) {
    std::vector<std::string> texts;
    for (const FoldedRow& row : folded(rows)) {
        std::string text;
        for (const std::string& component : row.path) {
            text += (text.empty() ? "" : ".") + component;
        }
        texts.push_back(text + " x" + std::to_string(row.n_tensors));
    }
    return texts;
}

TEST(FoldedNames, are_exactly_the_combinations_that_are_there) {
    std::vector<StoredRow> rows{stored("embed.weight")};
    for (const char* layer : {"0", "1", "2"}) {
        for (const char* expert : {"0", "1", "2", "3"}) {
            rows.push_back(stored("layers." + std::string(layer) + ".experts." + expert + ".w"));
        }
    }
    rows.push_back(stored("layers.3.experts.0.w"));
    rows.push_back(stored("layers.3.experts.2.w"));
    EXPECT_EQ(paths(rows),
              (std::vector<std::string>{"embed.weight x1", "layers.{0-2}.experts.{0-3}.w x12",
                                        "layers.3.experts.{0,2}.w x2"}));
}

TEST(FoldedNames, keep_apart_what_is_not_alike) {
    EXPECT_EQ(paths({stored("layers.0.fc1.weight0"), stored("layers.0.fc1.weight1"),
                     stored("layers.0.fc2.weight0"), stored("layers.1.fc1.weight0", {4})}),
              (std::vector<std::string>{"layers.0.fc1.weight{0,1} x2", "layers.0.fc2.weight0 x1",
                                        "layers.1.fc1.weight0 x1"}));
    // A number that is not written as numbers are is part of the name.
    EXPECT_EQ(paths({stored("a.01.w"), stored("a.1.w")}),
              (std::vector<std::string>{"a.01.w x1", "a.1.w x1"}));
    EXPECT_EQ(ranges_text({0, 1, 2, 5, 7, 8}), "0-2,5,7,8");
}

TEST(TensorTree, has_a_line_for_each_branch_with_the_sum_below_it) {
    const std::string tree = tensor_tree({stored("m.embed.weight"), stored("m.layers.0.a.weight"),
                                          stored("m.layers.0.b"), stored("m.layers.1.a.weight"),
                                          stored("m.layers.1.b")});
    EXPECT_EQ(tree,
              "tensor          number  dtype     shape   shards  bytes\n"
              "m                    5                             40 B\n"
              "  embed.weight       1  bfloat16  [2, 2]       1    8 B\n"
              "  layers.{0,1}       4                             32 B\n"
              "    a.weight         2  bfloat16  [2, 2]       1   16 B\n"
              "    b                2  bfloat16  [2, 2]       1   16 B\n");
}

TEST(TensorTree, survives_names_of_any_depth) {
    std::string name = "a";
    for (int i = 0; i < 100'000; ++i) {
        name += ".0";
    }
    EXPECT_NE(tensor_tree({stored(name), stored(name + "1")}).find("a.0.0"), std::string::npos);
}

TEST(TensorTree, is_none_where_nothing_can_be_folded) {
    std::vector<StoredRow> rows;
    for (int i = 0; i < 25'000; ++i) {
        rows.push_back(stored("x" + std::to_string(i)));
    }
    EXPECT_EQ(tensor_tree(rows), "");
}

TEST(ModelParts, are_told_by_the_first_word_that_decides) {
    const std::vector<std::pair<const char*, const char*>> cases = {
        {"model.layers.0.self_attn.q_proj.weight", "attention"},
        {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", "norms"},
        {"model.layers.0.mlp.experts.3.up_proj.weight", "experts"},
        {"model.layers.0.mlp.shared_expert.up_proj.weight", "shared experts"},
        {"model.layers.0.mlp.gate.weight", "router"},
        {"model.layers.0.mlp.gate_proj.weight", "mlp"},
        {"decoder.layers.0.mlp.linear_fc1.weight", "mlp"},
        {"embedding.word_embeddings.weight", "embedding"},
        {"lm_head.weight", "head"},
        {"rope.freqs", "other"}};
    for (const auto& [name, part] : cases) {
        EXPECT_EQ(part_of(name), part) << name;
    }
    ModelParts parts;
    parts.add("lm_head.weight", 1, DType::f32, 40);
    parts.add("model.embed_tokens.weight", 1, DType::bf16, 80);
    EXPECT_EQ(parts.all().elements, 50);
    EXPECT_EQ(parts.parts().front().name, "embedding");
    EXPECT_EQ(human_count(1'234'567), "1.23 M");
}

catalogue::Catalogue with_files(const std::string& format, const std::vector<std::string>& paths,
                                const std::map<std::string, Index>& facts) {
    catalogue::Catalogue catalogue;
    catalogue.format = format;
    for (const std::string& path : paths) {
        catalogue.files.push_back({path, 1});
    }
    catalogue.facts = facts;
    return catalogue;
}

std::string drawn(const catalogue::Catalogue& catalogue) {
    return grid_text(formats::rank_grid(catalogue), copies_only(catalogue));
}

TEST(RankGrid, is_drawn_by_stages_and_shards) {
    EXPECT_EQ(
        drawn(with_files("megatron legacy",
                         {"mp_rank_00_000/a.pt", "mp_rank_00_001/a.pt", "mp_rank_01_000/a.pt"},
                         {{"tp", 2}, {"pp", 2}})),
        "rank files (#: present, X: missing), pp 2 x tp 2\n"
        "  pp0 ##\n"
        "  pp1 #X\n");
    // Experts divided among the ranks that divide the rest: no file belongs to the other places.
    EXPECT_EQ(drawn(with_files("megatron legacy", {"mp_rank_00_000/a.pt", "mp_rank_01_001/a.pt"},
                               {{"tp", 2}, {"ep", 2}, {"etp", 1}})),
              "rank files (#: present, .: no file), ep 2 x tp 2\n"
              "  ep0 #.\n"
              "  ep1 .#\n");
    EXPECT_EQ(drawn(with_files("megatron legacy", {"mp_rank_00/a.pt"}, {{"tp", 1}})), "");
}

TEST(RankGrid, shows_copies_and_missing_ranks_of_a_mesh) {
    catalogue::Catalogue catalogue =
        with_files("verl fsdp",
                   {"model_world_size_4_rank_0.pt", "model_world_size_4_rank_1.pt",
                    "model_world_size_4_rank_2.pt"},
                   {});
    EXPECT_EQ(drawn(catalogue), "rank files (#: present, X: missing), 4 ranks\n  0 ###X\n");
    catalogue.mesh = {{"ddp", 2}, {"fsdp", 2}};
    catalogue::Tensor tensor;
    for (std::uint32_t file = 0; file < 3; ++file) {
        catalogue::Piece piece;
        piece.file = file;
        piece.replica = file == 2 ? 1 : 0;
        tensor.pieces.push_back(piece);
    }
    catalogue.tensors.push_back(tensor);
    EXPECT_EQ(drawn(catalogue),
              "rank files (#: present, =: copies only, X: missing), ddp 2 x fsdp 2\n"
              "  ddp0 ##\n"
              "  ddp1 =X\n");
    EXPECT_EQ(drawn(with_files("torch dcp", {"__0_0.distcp", "__0_1.distcp", "__2_0.distcp"}, {})),
              "rank files (#: present, .: no file), 3 ranks\n  0 #.#\n");
}

TEST(RankGrid, of_absurd_sizes_is_none) {
    EXPECT_EQ(drawn(with_files("verl fsdp", {"model_world_size_999999999_rank_0.pt"}, {})), "");
    EXPECT_EQ(drawn(with_files("megatron legacy", {"mp_rank_00_000/a.pt"},
                               {{"tp", 1'000'000}, {"pp", 1'000'000}})),
              "");
    EXPECT_EQ(drawn(with_files("huggingface", {"model.safetensors"}, {})), "");
    // Any rank may write as many parts as it likes, and its number be as large.
    EXPECT_EQ(drawn(with_files("torch dcp", {"__0_0.distcp", "__9999999999_0.distcp"}, {})), "");
}

TEST(ShownNumbers, are_short) {
    EXPECT_EQ(duration_text(0.046), "0.05 s");
    EXPECT_EQ(duration_text(12.3), "12 s");
    EXPECT_EQ(duration_text(600), "10.0 min");
    EXPECT_EQ(duration_text(10'000), "2.8 h");
    EXPECT_EQ(percent_text(1, 8), "12.5 %");
    EXPECT_EQ(percent_text(1, 0), "0.0 %");
    EXPECT_EQ(bar(1, 1'000'000, 10), "#");
    EXPECT_EQ(bar(5, 10, 10), "#####");
    EXPECT_EQ(bar(0, 10, 10), "");
}

}  // namespace
}  // namespace shardweld::app
