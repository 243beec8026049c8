#include <algorithm>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "models/lora_products.hpp"
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
    EXPECT_TRUE(std::ranges::any_of(form.shared, [&](const LoraForm::Shared& shared) {
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

// Whatever matrix of whatever family an adapter changes: each of its factors has a line, whole and
// as it is stored, and so has each segment of which a canonical adapter may have one.
TEST(LoraLines, are_there_for_every_matrix_of_every_family) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Dialect& dialect = *library.find_dialect("megatron_core");
    const Dialect products = lora_products(dialect);
    std::set<std::string> weights;
    for (const Line& line : dialect.store) {
        if (line.name.text.ends_with(".weight") && line.layout.dims.size() >= 2) {
            weights.insert(line.name.text.substr(0, line.name.text.size() - 7));
        }
    }
    EXPECT_GT(weights.size(), 200U);
    std::size_t n_families = 0;
    for (const Recipe* const recipe : library.recipes()) {
        if (!library.can_meet(*recipe, dialect)) {
            continue;
        }
        ++n_families;
        const LoraForm form = lora_form(*recipe, dialect);
        std::set<std::string> whole;
        std::set<std::string> stored;
        std::ranges::transform(form.recipe.hub, std::inserter(whole, whole.end()),
                               [](const Line& line) { return line.name.text; });
        std::ranges::transform(form.dialect.store, std::inserter(stored, stored.end()),
                               [](const Line& line) { return line.name.text; });
        EXPECT_EQ(whole, stored) << recipe->name;
        for (const std::string& weight : weights) {
            for (const char* end : {".adapter.linear_in.weight", ".adapter.linear_out.weight"}) {
                ASSERT_TRUE(stored.contains(weight + end)) << recipe->name << ": " << weight;
            }
        }
        for (const Line& line : products.store) {
            ASSERT_TRUE(line.name.text.find(".adapter.") == std::string::npos ||
                        stored.contains(line.name.text))
                << recipe->name << ": " << line.name.text;
        }
    }
    EXPECT_GT(n_families, 60U);
}

}  // namespace
}  // namespace shardweld::models
