// `refuse` rules: what the checkpoint states and no shape shows.
#include <gtest/gtest.h>

#include "models/claims.hpp"

#include "support.hpp"

namespace shardweld::models {
namespace {

using Claims = std::map<std::string, std::string>;

/// What the rules say of a built-in family.
std::string refusal(const std::string& model_type, const Claims& claims) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Config config = config_of(R"({"model_type": ")" + model_type + R"("})");
    return error_of([&] {
        require_fit(recipe_for(library, config), *library.find_dialect("megatron_core"), config,
                    claims);
    });
}

const std::string kLessOne = ": norms hold weight - 1, this family's the weight itself";
const std::string kItself = ": norms hold the weight itself, this family's weight - 1";
const std::string kAdvice =
    "; give a recipe for such checkpoints with --recipe (docs/using/recipes.md, Refusals)";
const Claims kOld = {{"apply_layernorm_1p", "true"}, {"layernorm_zero_centered_gamma", "false"}};
const Claims kNew = {{"layernorm_zero_centered_gamma", "true"}};
const Claims kOff = {{"apply_layernorm_1p", "false"}, {"layernorm_zero_centered_gamma", "false"}};

TEST(Refusals, norms_that_are_not_zero_centred_in_the_family) {
    for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral",
                               "deepseek_v3", "gpt_oss", "granite", "smollm3"}) {
        EXPECT_TRUE(refusal(family, kOld).starts_with("unsupported: ")) << family;
        EXPECT_TRUE(refusal(family, kNew).starts_with("unsupported: ")) << family;
        EXPECT_EQ(refusal(family, kOff), "no error") << family;
        EXPECT_EQ(refusal(family, {}), "no error") << family;
    }
    EXPECT_EQ(refusal("llama", kNew),
              "unsupported: the recipe llama does not fit this checkpoint:\n  its args say "
              "layernorm_zero_centered_gamma true" +
                  kLessOne + kAdvice);
}

TEST(Refusals, norms_that_are_zero_centred_in_the_family) {
    for (const char* family : {"gemma", "gemma2", "gemma3_text", "qwen3_next", "qwen3_5_text"}) {
        // The older option's name alone switches it on, whatever the newer one says.
        EXPECT_EQ(refusal(family, kOld), "no error") << family;
        EXPECT_EQ(refusal(family, kNew), "no error") << family;
        EXPECT_EQ(refusal(family, {}), "no error") << family;
        EXPECT_TRUE(refusal(family, kOff).starts_with("unsupported: ")) << family;
    }
    EXPECT_EQ(refusal("gemma", kOff),
              "unsupported: the recipe gemma does not fit this checkpoint:\n  its args say "
              "apply_layernorm_1p false, layernorm_zero_centered_gamma false" +
                  kItself + kAdvice);
}

TEST(Refusals, the_order_of_rotary_rows) {
    const Claims on = {{"rotary_interleaved", "true"}};
    const Claims off = {{"rotary_interleaved", "false"}};
    for (const char* family : {"llama", "gemma", "deepseek_v3", "smollm3", "glm4_moe"}) {
        EXPECT_TRUE(refusal(family, on).starts_with("unsupported: ")) << family;
        EXPECT_EQ(refusal(family, off), "no error") << family;
    }
    // `off` may be the option's default, whatever the model was built with.
    for (const char* family : {"glm", "glm4", "ernie4_5", "ernie4_5_moe", "llama4_text"}) {
        for (const Claims& claims : {on, off, Claims()}) {
            EXPECT_EQ(refusal(family, claims), "no error") << family;
        }
    }
    EXPECT_EQ(refusal("llama", {{"rotary_interleaved", "true"}, {"apply_layernorm_1p", "true"}}),
              "unsupported: the recipe llama does not fit this checkpoint:\n  its args say "
              "apply_layernorm_1p true" +
                  kLessOne +
                  "\n  its args say rotary_interleaved true: rotary embeddings turn neighbouring "
                  "rows of queries and keys, this family's rows of two halves" +
                  kAdvice);
}

TEST(Refusals, what_cannot_be_decided_is_an_error) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect("refuse \"why\" if $on and i = 4\nrefuse \"text\" if $kind = \"x\"\n"),
         toy_recipe()});
    const auto error = [&](const std::string& json, const Claims& claims) {
        return error_of([&] {
            require_fit(*library.find_recipe("toy_model"), *library.find_dialect("toy"),
                        config_of(json), claims);
        });
    };
    EXPECT_EQ(error(R"({"inner": 4})", {{"on", "true"}}),
              "unsupported: the recipe toy_model does not fit this checkpoint:\n  its args say on "
              "true: why" +
                  kAdvice);
    EXPECT_EQ(error(R"({"inner": 5})", {{"on", "true"}}), "no error");
    EXPECT_EQ(error("{}", {{"on", "false"}}), "no error");
    EXPECT_TRUE(error("{}", {{"on", "true"}}).starts_with("mismatch: "))
        << error("{}", {{"on", "true"}});
    EXPECT_TRUE(error("{}", {{"on", "some"}}).starts_with("mismatch: "))
        << error("{}", {{"on", "some"}});
    EXPECT_EQ(error("{}", {{"kind", "y"}}), "no error");
    EXPECT_TRUE(error("{}", {{"kind", "x"}}).starts_with("unsupported: "));
}

TEST(Refusals, are_checked_when_files_are_loaded) {
    EXPECT_EQ(error_of_load({toy_dialect("refuse why if $on\n")}),
              "usage: toy.dialect:9: column 8: expected the reason in quotes, found 'why'");
    EXPECT_EQ(error_of_load({toy_dialect("refuse \"why\"\n")}),
              "usage: toy.dialect:9: column 13: expected 'if' and a condition, found the end");
    EXPECT_EQ(error_of_load({toy_dialect("refuse \"why\" if none\n"), toy_recipe()}),
              "usage: toy.dialect:9: recipe toy_model with dialect toy does not define 'none'");
}

}  // namespace
}  // namespace shardweld::models
