#include <algorithm>

#include <gtest/gtest.h>

#include "models/recipe.hpp"

namespace shardweld::models {
namespace {

std::string layout_text(const layout::Layout& layout) {
    std::string text;
    for (const layout::SegmentAxes& segment : layout::segments_of(layout)) {
        text += (text.empty() ? "" : "|") + segment.label;
        for (const std::string& axis : segment.axes) {
            text += " " + axis;
        }
    }
    return text;
}

/// "logical: segments <join dims>" of the line of a name, "" if there is none.
std::string told(const std::vector<Line>& lines, const std::string& name) {
    const auto line = std::ranges::find_if(
        lines, [&](const Line& candidate) { return candidate.name.text == name; });
    if (line == lines.end()) {
        return "";
    }
    std::string text = line->logical + ": " + layout_text(line->layout);
    for (const JoinStep& step : line->join ? line->join->steps : std::vector<JoinStep>{}) {
        text += " <tp " + std::to_string(step.dim) + ">";
    }
    return text;
}

TEST(LoraLines, follow_those_of_the_weights) {
    const RecipeLibrary library = RecipeLibrary::load();
    const LoraForm form =
        lora_form(*library.find_recipe("llama"), *library.find_dialect("megatron_core"));
    const std::string hub = "model.layers.{l}.";
    EXPECT_EQ(told(form.recipe.hub, hub + "self_attn.k_proj.lora_A.weight"),
              "layer.{l}.qkv.lora_down.k:  h lora_rank");
    EXPECT_EQ(told(form.recipe.hub, hub + "self_attn.k_proj.lora_B.weight"),
              "layer.{l}.qkv.lora_up: k d g lora_rank");
    EXPECT_EQ(told(form.recipe.hub, hub + "mlp.down_proj.lora_A.weight"),
              "layer.{l}.fc2.lora_down:  f lora_rank t");
    EXPECT_TRUE(told(form.recipe.hub, "model.embed_tokens.lora_A.weight").size() > 0);
    EXPECT_EQ(told(form.recipe.hub, "model.norm.lora_A.weight"), "");

    const std::string one = "decoder.layers.{l}.";
    EXPECT_EQ(told(form.dialect.store, one + "self_attention.linear_qkv.adapter.linear_out.weight"),
              "layer.{l}.qkv.lora_up: q d g lora_rank p|k d g lora_rank|v d g lora_rank <tp 0>");
    EXPECT_EQ(told(form.dialect.store,
                   one + "self_attention.linear_qkv.adapter.adapter_k.linear_in.weight"),
              "layer.{l}.qkv.lora_down.k:  h lora_rank <tp 0>");
    EXPECT_EQ(told(form.dialect.store,
                   one + "self_attention.linear_qkv.adapter.adapter_k.linear_out.weight"),
              "layer.{l}.qkv.lora_up: k d g lora_rank <tp 0>");
    EXPECT_EQ(told(form.dialect.store, one + "mlp.linear_fc2.adapter.linear_in.weight"),
              "layer.{l}.fc2.lora_down:  f lora_rank t <tp 1>");
    EXPECT_EQ(told(form.dialect.store, one + "mlp.linear_fc2.adapter.linear_out.weight"),
              "layer.{l}.fc2.lora_up:  h lora_rank <tp 0>");
    EXPECT_EQ(told(form.dialect.store, "decoder.layers.mlp.linear_fc2.adapter.linear_out.weight"),
              "layer.{l}.fc2.lora_up:  h l lora_rank <tp 1>");
    EXPECT_EQ(told(form.dialect.store, one + "mlp.linear_fc1.weight"), "");
    EXPECT_TRUE(std::ranges::any_of(form.shared, [&](const LoraForm::Shared& shared) {
        return shared.name.text == one + "mlp.linear_fc1.adapter.linear_in.weight" &&
               shared.labels == std::vector<std::string>{"gate", "up"};
    }));
}

}  // namespace
}  // namespace shardweld::models
