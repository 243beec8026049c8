#include <gtest/gtest.h>

#include "shardweld/catalogue/catalogue.hpp"

#include "../../../src/formats/megatron/adapter.hpp"
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
    expect_error(ErrorCode::mismatch, "but no linear_out of any layer",
                 [&] { note_adapter(catalogue); });
    add(kGate, {2, 12, 3});
    add("decoder.layers.mlp.linear_fc1.adapter.adapter_gate.linear_in.weight", {2, 3, 8});
    note_adapter(catalogue);
    EXPECT_EQ(catalogue.facts, (std::map<std::string, Index>{{"lora_only", 1}, {"lora_rank", 3}}));
    catalogue.facts.clear();
    add("decoder.layers.mlp.linear_fc2.weight", {2, 4, 4});
    note_adapter(catalogue);
    EXPECT_EQ(catalogue.facts, (std::map<std::string, Index>{{"lora_rank", 3}}));
    add("decoder.layers.mlp.linear_fc2.adapter.linear_out.weight", {2, 4, 5});
    expect_error(ErrorCode::unsupported, "ranks 3 to 5", [&] { note_adapter(catalogue); });
}

TEST(MegatronAdapter, of_other_kinds_is_refused) {
    EXPECT_FALSE(is_factor("mlp.adapters.weight"));
    EXPECT_FALSE(is_factor("decoder.layers.0.mlp.linear_fc2.adapter.linear_in._extra_state"));
    expect_error(ErrorCode::unsupported, "that is no plain LoRA",
                 [] { (void)is_factor("mlp.linear_fc2.adapter.weight_magnitude"); });
    expect_error(ErrorCode::unsupported, "of experts",
                 [] { (void)is_factor("mlp.experts.linear_fc2.adapter.linear_in.weight"); });
}

}  // namespace
}  // namespace shardweld::formats::megatron
