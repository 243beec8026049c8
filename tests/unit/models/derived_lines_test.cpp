#include <algorithm>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "models/reading/lora_products.hpp"
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

const std::string kLayer = "decoder.layers.{l}.";

LoraForm llama_form(const RecipeLibrary& library) {
    return lora_form(*library.find_recipe("llama"), *library.find_dialect("megatron_core"));
}

TEST(LoraLines, follow_those_of_the_weights) {
    const RecipeLibrary library = RecipeLibrary::load();
    const LoraForm form = llama_form(library);
    const std::string qkv = kLayer + "self_attention.linear_qkv.adapter.";
    for (const auto* const lines : {&form.recipe.hub, &form.dialect.store}) {
        const std::string end = lines == &form.recipe.hub ? "" : " <tp 0>";
        EXPECT_EQ(
            told(*lines, qkv + "linear_out.weight"),
            qkv + "linear_out.weight: q d g lora_rank p|k d g lora_rank|v d g lora_rank" + end);
        EXPECT_EQ(told(*lines, qkv + "linear_in.weight"),
                  qkv + "linear_in.weight:  h lora_rank" + end);
        EXPECT_EQ(told(*lines, qkv + "adapter_k.linear_out.weight"),
                  qkv + "adapter_k.linear_out.weight:  d g lora_rank" + end);
        EXPECT_EQ(told(*lines, kLayer + "mlp.linear_fc1.weight"), "");
        EXPECT_EQ(told(*lines, kLayer + "self_attention.q_layernorm.adapter.linear_in.weight"), "");
    }
    const auto shape_of = [&](const std::string& name) {
        const std::string text = told(form.dialect.store, name);
        return text.substr(std::min(text.size(), name.size()));
    };
    EXPECT_EQ(shape_of(kLayer + "mlp.linear_fc2.adapter.linear_in.weight"),
              ":  f lora_rank t <tp 1>");
    EXPECT_EQ(shape_of(kLayer + "mlp.linear_fc2.adapter.linear_out.weight"),
              ":  h lora_rank <tp 0>");
    EXPECT_EQ(shape_of("decoder.layers.mlp.linear_fc2.adapter.linear_out.weight"),
              ":  h l lora_rank <tp 1>");
    EXPECT_TRUE(std::ranges::any_of(form.shared, [&](const LoraForm::SharedFactor& shared) {
        return shared.name.text == kLayer + "mlp.linear_fc1.adapter.linear_in.weight" &&
               shared.labels == std::vector<std::string>{"gate", "up"};
    }));
}

// Rows that fill up a vocabulary are stored, and are no part of the factor.
TEST(LoraLines, of_a_vocabulary_end_with_it) {
    const RecipeLibrary library = RecipeLibrary::load();
    const LoraForm form = llama_form(library);
    const std::string name = "output_layer.adapter.linear_out.weight";
    EXPECT_EQ(told(form.recipe.hub, name), name + ": v lora_rank vocab");
    EXPECT_EQ(told(form.dialect.store, name), name + ": v lora_rank vocab|pad * lora_rank <tp 0>");
}

TEST(LoraProducts, of_canonical_factors_are_segments) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Dialect products = lora_products(*library.find_dialect("megatron_core"));
    const std::string fc1 = kLayer + "mlp.linear_fc1.";
    EXPECT_EQ(told(products.store, fc1 + "adapter.adapter_up.linear_in.weight"),
              "layer.{l}.fc1: up f h t");
    EXPECT_EQ(told(products.store, fc1 + "weight"), "layer.{l}.fc1: gate f h t|up f h t <tp 0>");
}

// Whatever matrix an adapter changes, in the language model, a tower, a projector or MTP: each of
// its factors has a line, whole and as it is stored, and so has each segment of which a canonical
// adapter may have one.
TEST(LoraLines, are_there_for_every_matrix) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Dialect& dialect = *library.find_dialect("megatron_core");
    const LoraForm form = llama_form(library);
    const auto names_of = [](const std::vector<Line>& lines) {
        std::set<std::string> names;
        std::ranges::transform(lines, std::inserter(names, names.end()),
                               [](const Line& line) { return line.name.text; });
        return names;
    };
    const std::set<std::string> stored = names_of(form.dialect.store);
    EXPECT_EQ(names_of(form.recipe.hub), stored);
    std::size_t n_weights = 0;
    for (const Line& line : dialect.store) {
        const std::string& name = line.name.text;
        if (name.ends_with(".weight") && line.layout.dims.size() >= 2) {
            ++n_weights;
            const std::string stem = name.substr(0, name.size() - 7);
            EXPECT_TRUE(stored.contains(stem + ".adapter.linear_in.weight")) << name;
            EXPECT_TRUE(stored.contains(stem + ".adapter.linear_out.weight")) << name;
        }
    }
    EXPECT_GT(n_weights, 200U);
    for (const std::string& name : names_of(lora_products(dialect).store)) {
        EXPECT_TRUE(name.find(".adapter.") == std::string::npos || stored.contains(name)) << name;
    }
}

}  // namespace
}  // namespace shardweld::models
