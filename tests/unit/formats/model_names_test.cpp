// Names of Megatron's model tensors without wrappers, and adapters told by their names.
#include "formats/megatron/model_names.hpp"

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"
#include "io/whole_file.hpp"

#include "scratch.hpp"

namespace shardweld::formats::megatron {
namespace {

constexpr const char* kProjection = "decoder.layers.0.self_attention.linear_proj.weight";

TEST(MegatronNames, lose_their_wrappers) {
    const std::string name = kProjection;
    for (const std::string front : {"", "module.", "model.module.", "model.module.module."}) {
        EXPECT_EQ(model_name(front + name), name);
    }
    EXPECT_EQ(model_name("module.decoder.layers.0.self_attention.linear_proj.to_wrap.weight"),
              name);
    EXPECT_EQ(model_name("a.to_wrap.to_wrap.b.to_wrap.c"), "a.b.c");
    // Parts of words are none of them.
    EXPECT_EQ(model_name("modules.x.not_to_wrap.weight"), "modules.x.not_to_wrap.weight");
    EXPECT_EQ(model_name("mlp.adapters.weight"), "mlp.adapters.weight");
}

TEST(MegatronNames, are_told_apart) {
    const auto tensor = [](const std::string& name) {
        return catalogue::Tensor{name, DType::bf16, {}, {}};
    };
    std::vector<catalogue::Tensor> tensors{tensor("b"), tensor("a")};
    sort_tensors(tensors);
    EXPECT_EQ(tensors.front().name, "a");
    tensors.push_back(tensor("b"));
    expect_error(ErrorCode::corrupt, "two keys name tensor b when wrappers",
                 [&] { sort_tensors(tensors); });
}

TEST(MegatronNames, are_not_those_of_towers) {
    EXPECT_TRUE(holds_megatron_name("x decoder.layers.11.mlp.linear_fc1.weight"));
    EXPECT_TRUE(holds_megatron_name("blocks.0.mlp.linear_fc1 decoder.layers.mlp.linear_fc1.bias"));
    EXPECT_FALSE(holds_megatron_name("model.visual.blocks.0.mlp.linear_fc1.weight"));
    EXPECT_FALSE(holds_megatron_name(".mlp.linear_fc1 1.mlp.linear_fc2 decoder.layers.0.mlp.fc1"));
}

// In rank files too: a fixture whose projection is called an adapter's.
TEST(MegatronNames, of_an_adapter_in_one_rank_file_are_refused) {
    const Scratch scratch;
    scratch.copy(fixture("llama-tp4-legacy-bf16") / "source");
    const fs::path file = scratch.path() / "iter_0000010" / "mp_rank_02" / "model_optim_rng.pt";
    std::string bytes = io::read_text(file, 1 << 20);
    const std::string adapter = "decoder.layers.0.self_attention.xx.adapter.inside";
    const std::string name = kProjection;
    ASSERT_GE(name.size(), adapter.size());
    const auto at = bytes.find(name);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, adapter.size(), adapter);
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    std::ofstream(file, std::ios::binary) << bytes;
    JobInput request;
    request.directory = scratch.path();
    expect_error(ErrorCode::not_found, "mp_rank_02/model_optim_rng.pt",
                 [&] { read_catalogue(locate(request)); });
}

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
