// Names of Megatron's model tensors without wrappers, and adapters told by their names.
#include "formats/megatron/model_names.hpp"

#include "catalogue/tensor.hpp"
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
    InputRequest request;
    request.directory = scratch.path();
    expect_error(ErrorCode::not_found, "mp_rank_02/model_optim_rng.pt",
                 [&] { read_catalogue(locate(request)); });
}

}  // namespace
}  // namespace shardweld::formats::megatron
