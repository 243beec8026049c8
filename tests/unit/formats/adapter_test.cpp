#include "formats/megatron/adapter.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"

#include "scratch.hpp"

namespace shardweld::formats::megatron {
namespace {

const std::string kGate = "decoder.layers.mlp.linear_fc1.adapter.adapter_gate.linear_out.weight";

/// [2, 12, 3] in blocks of rows of both layers.
catalogue::Tensor blocks(const std::string& name, Index n_blocks) {
    catalogue::Tensor tensor{name, DType::f32, {2, 12, 3}, {}};
    for (Index i = 0; i < n_blocks; ++i) {
        catalogue::Piece piece;
        piece.base = static_cast<Bytes>(i);
        const Index rows = 12 / n_blocks;
        piece.patch = layout::dense(layout::Box{{0, 2}, {i * rows, rows}, {0, 3}});
        tensor.pieces.push_back(piece);
    }
    return tensor;
}

std::vector<Index> rows_of(const catalogue::Tensor& tensor) {
    std::vector<Index> rows;
    for (const catalogue::Piece& piece : tensor.pieces) {
        rows.push_back(piece.patch.axes[1].lo);
    }
    return rows;
}

TEST(MegatronAdapter, halves_of_all_ranks_go_to_their_ranks) {
    for (const auto& [n_blocks, rows] : std::vector<std::pair<Index, std::vector<Index>>>{
             {2, {0, 6}}, {4, {0, 6, 3, 9}}, {6, {0, 4, 8, 2, 6, 10}}}) {
        catalogue::Tensor tensor = blocks(kGate, n_blocks);
        undo_halves(tensor);
        EXPECT_EQ(rows_of(tensor), rows);
    }
    const auto without = [](std::string name, const std::string& part) {
        return name.erase(name.find(part), part.size());
    };
    for (const std::string& name :
         {without(kGate, ".adapter_gate"),
          std::string(
              "decoder.layers.self_attention.linear_qkv.adapter.adapter_q.linear_out.weight"),
          std::string("decoder.layers.mlp.linear_fc1.adapter.adapter_up.linear_in.weight")}) {
        catalogue::Tensor other = blocks(name, 4);
        undo_halves(other);
        EXPECT_EQ(rows_of(other), (std::vector<Index>{0, 3, 6, 9})) << name;
    }
    for (const Index n_blocks : {1, 3}) {
        catalogue::Tensor odd = blocks(kGate, n_blocks);
        expect_error(ErrorCode::unsupported, "are not two equal halves for each rank",
                     [&] { undo_halves(odd); });
    }
    catalogue::Tensor uneven = blocks(kGate, 2);
    uneven.pieces[0].patch.axes[1].extent = 5;
    uneven.pieces[1].patch.axes[1] = {5, 7, 3};
    expect_error(ErrorCode::unsupported, "are not two equal halves", [&] { undo_halves(uneven); });
}

TEST(MegatronAdapter, states_its_rank_and_whether_it_is_alone) {
    catalogue::Catalogue catalogue;
    const auto add = [&](const std::string& name, std::vector<Index> shape) {
        catalogue.tensors.push_back({name, DType::f32, std::move(shape), {}});
    };
    add("decoder.layers.mlp.linear_fc2.weight", {2, 4, 4});
    note_adapter(catalogue);
    EXPECT_TRUE(catalogue.facts.empty());
    catalogue.tensors.clear();
    add("decoder.layers.mlp.linear_fc2.adapter.linear_in.weight", {2, 3, 4});
    note_adapter(catalogue);
    EXPECT_EQ(catalogue.facts, (std::map<std::string, Index>{{"lora_only", 1}, {"lora_rank", 0}}));
    add(kGate, {2, 12, 3});
    add("decoder.layers.mlp.linear_fc1.adapter.adapter_gate.linear_in.weight", {2, 3, 8});
    note_adapter(catalogue);
    EXPECT_EQ(catalogue.facts, (std::map<std::string, Index>{{"lora_only", 1}, {"lora_rank", 3}}));
    catalogue.facts.clear();
    add("decoder.layers.mlp.linear_fc2.weight", {2, 4, 4});
    note_adapter(catalogue);
    EXPECT_EQ(catalogue.facts, (std::map<std::string, Index>{{"lora_rank", 3}}));
    add("decoder.layers.mlp.linear_fc2.adapter.linear_out.weight", {2, 4, 5});
    note_adapter(catalogue);
    EXPECT_EQ(catalogue.facts, (std::map<std::string, Index>{{"lora_rank", 0}}));
}

// ms-swift's B of gate and up: as many pieces as ranks.
TEST(MegatronAdapter, says_that_rows_of_gate_and_up_lie_by_ranks) {
    catalogue::Catalogue catalogue;
    catalogue::Tensor factor{
        "decoder.layers.mlp.linear_fc1.adapter.linear_out.weight", DType::f32, {8, 3}, {}};
    for (const Index row : {0, 4}) {
        catalogue::Piece piece;
        piece.patch.axes = {{row, 4, 3}, {0, 3, 1}};
        factor.pieces.push_back(piece);
    }
    catalogue.tensors.push_back(factor);
    for (const auto& [tp, is_by_rank] : {std::pair(2, true), std::pair(4, false)}) {
        catalogue.facts = {{"tp", tp}};
        note_adapter(catalogue);
        EXPECT_EQ(catalogue.facts.contains("lora_rows_by_rank"), is_by_rank) << tp;
    }
}

TEST(MegatronAdapter, names_of_peft_are_read_as_the_bridges) {
    for (const auto& [peft, bridge] : std::vector<std::pair<std::string, std::string>>{
             {"a.linear_fc2.lora_A.default.weight", "a.linear_fc2.adapter.linear_in.weight"},
             {"a.linear_fc2.lora_B.x.weight", "a.linear_fc2.adapter.linear_out.weight"},
             {"a.linear_fc2.base_layer.weight", "a.linear_fc2.weight"},
             {"a.router.original_module.weight", "a.router.weight"},
             {"a.lora_magnitude_vector.x.weight", "a.adapter.lora_magnitude_vector.x.weight"},
             {"a.modules_to_save.x.weight", "a.adapter.modules_to_save.x.weight"},
             {"a.linear_fc2.weight", "a.linear_fc2.weight"}}) {
        EXPECT_EQ(without_peft(peft), bridge);
        EXPECT_EQ(is_of_adapter(bridge), bridge.find(".adapter.") != std::string::npos);
    }
    EXPECT_FALSE(is_of_adapter("mlp.adapters.weight"));
    EXPECT_FALSE(is_of_adapter("decoder.layers.0.mlp.linear_fc2.adapter.linear_in._extra_state"));
}

}  // namespace
}  // namespace shardweld::formats::megatron
