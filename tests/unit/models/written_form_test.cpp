#include "models/forms/written_form.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "models/forms/hub_tensors.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {
namespace {

constexpr const char* kFormConfig =
    R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "intermediate_size": 96, "vocab_size": 10, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128, "rope_theta": 500000.0)";

struct Made {
    RecipeLibrary library;
    const Dialect* form = nullptr;
    WrittenForm written;
    Config config;
    std::shared_ptr<Symbols> symbols;
};

Made make(const std::string& more, const std::vector<RecipeFile>& extra = {}) {
    Made made{RecipeLibrary::load(extra), nullptr, {}, {}, nullptr};
    made.config = Config::parse(kFormConfig + more + "}", "config.json");
    const Recipe& recipe = recipe_for(made.library, made.config);
    made.form = form_for(made.library, recipe, "gguf");
    made.written = written_form(recipe, own_names(recipe, *made.library.find_dialect("hf_module")),
                                *made.form);
    made.symbols = std::make_shared<Symbols>(made.written.recipe, made.written.dialect, made.config,
                                             std::map<std::string, Index>{{"file_type", 7}},
                                             std::map<std::string, Index>{{"value", 0}});
    return made;
}

Metadata keys_of(const Made& made) {
    return metadata_of(*made.form, *made.symbols, made.config);
}

const MetadataField* find(const Metadata& metadata, const std::string& key) {
    const auto found = std::ranges::find(metadata, key, &MetadataField::key);
    return found == metadata.end() ? nullptr : &*found;
}

TEST(WrittenForm, has_names_and_shapes_of_llama_cpp) {
    const Made made = make("");
    std::map<std::string, std::vector<Index>> shapes;
    for (const HubTensor& tensor : hub_tensors(made.written.recipe, *made.symbols)) {
        shapes[tensor.name] = tensor.shape;
    }
    EXPECT_EQ(shapes.size(), 12U);
    EXPECT_EQ(shapes.at("blk.0.attn_q.weight"), (std::vector<Index>{64, 64}));
    EXPECT_EQ(shapes.at("blk.0.attn_k.weight"), (std::vector<Index>{32, 64}));
    EXPECT_EQ(shapes.at("output.weight"), (std::vector<Index>{10, 64}));
}

TEST(WrittenForm, has_the_keys_of_the_template_in_order) {
    const Metadata keys = keys_of(make(""));
    EXPECT_EQ(keys.front().texts, std::vector<std::string>{"llama"});
    EXPECT_EQ(find(keys, "general.file_type")->integers, std::vector<std::int64_t>{7});
    EXPECT_EQ(find(keys, "llama.attention.layer_norm_rms_epsilon")->reals,
              std::vector<float>{1e-5F});
    EXPECT_EQ(find(keys, "llama.rope.freq_base")->reals, std::vector<float>{500000});
    EXPECT_EQ(find(keys, "llama.rope.scaling.type"), nullptr);
    EXPECT_EQ(find(keys, "llama.attention.key_length"), nullptr);
    const Metadata scaled = keys_of(make(
        R"(, "head_dim": 16, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
            "original_max_position_embeddings": 32})"));
    EXPECT_EQ(find(scaled, "llama.rope.scaling.type")->texts, std::vector<std::string>{"yarn"});
    EXPECT_EQ(find(scaled, "llama.rope.scaling.factor")->reals, std::vector<float>{4});
    EXPECT_EQ(find(scaled, "llama.attention.key_length")->integers, std::vector<std::int64_t>{16});
}

TEST(WrittenForm, says_which_key_has_no_value) {
    try {
        (void)keys_of(make(R"(, "rms_norm_eps": "small")"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        EXPECT_NE(std::string(error.what()).find("layer_norm_rms_epsilon"), std::string::npos);
    }
    EXPECT_THROW((void)keys_of(make(R"(, "max_position_embeddings": -1)")), Error);
}

/// Values of convert_hf_to_gguf's formula, worked out with torch 2.15.
TEST(WrittenForm, gives_the_rotary_factors_of_llama_3) {
    const Made made = make(
        R"(, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192})");
    const std::vector<float> found = rope_factors(*made.symbols, made.config);
    const std::vector<float> expected{1, 1, 1, 1, 2.69453001F, 8, 8, 8};
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], expected[i] * 1e-6) << i;
    }
    EXPECT_TRUE(rope_factors(*make("").symbols, make("").config).empty());
}

TEST(WrittenForm, refuses_statements_that_are_none) {
    for (const char* line : {"key a = 1", "key a u64 = 1", "key a f32 = \"x\"",
                             "key a f32 = @b times x", "writes gguf", "key a text = \"x\" if"}) {
        const std::string text = std::string("dialect other\n") + line + "\n";
        EXPECT_THROW((void)RecipeLibrary::load({{"other.dialect", text}}), Error) << line;
    }
    const Made made = make("", {{"gguf_llama.dialect",
                                 "dialect gguf_llama\nextends gguf\nwrites gguf own\n"
                                 "families llama\nkey block_count u32 = 1 + @num_hidden_layers\n"
                                 "key note text = \"by hand\"\n"}});
    const Metadata keys = keys_of(made);
    EXPECT_EQ(find(keys, "own.block_count")->integers, std::vector<std::int64_t>{2});
    EXPECT_EQ(keys.back().texts, std::vector<std::string>{"by hand"});
}

}  // namespace
}  // namespace shardweld::models
