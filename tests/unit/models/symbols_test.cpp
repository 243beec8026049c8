#include "models/symbols.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

/// The hint of a field that is no number.
const std::string kMend = "; write a number there, as the trained model's config.json has it";
constexpr const char* kConfig = R"({
    "inner": 12, "outer": 5.0, "layers": 3, "yes": true, "half": 0.5, "word": "w", "gone": null,
    "kinds": ["full", "thin", "full"], "some": [2, null, "1", 0], "sizes": [4, null, 6], "huge": 4611686018427387904, "reals": [2.625, null, 0.3], "text": "3, 5,x,12",
    "labels": {"0": "a", "1": "b"}, "rope": {"theta": 10000.0}, "text_config": {"inside": 8, "inner": 1}})";

/// The toy files with more definitions, evaluated for kConfig.
Symbols symbols_with(const std::string& definitions, std::map<std::string, Index> facts = {},
                     std::map<std::string, Index> given = {}) {
    const RecipeLibrary library = RecipeLibrary::load({toy_dialect(), toy_recipe(definitions)});
    return {*library.find_recipe("toy_model"), *library.find_dialect("toy"), config_of(kConfig),
            std::move(facts), std::move(given)};
}

Index value_of(const std::string& expression, const Captures& captures) {
    return symbols_with("let z = " + expression + "\n").value("z", captures);
}

/// All in one library, a recipe for each, as loading takes most of the time; those that it refuses
/// alone.
TEST(Symbols, expressions) {
    const std::vector<Asked> rows = asked("value", 42);
    const auto expression = [](const Asked& row) {
        return row.text.substr(row.text.starts_with("l=") ? 4 : 0);
    };
    const auto is_refused = [](const Asked& row) { return row.answer.starts_with("usage: "); };
    std::vector<RecipeFile> files{toy_dialect()};
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!is_refused(rows[i])) {
            files.push_back(toy_recipe("let z = " + expression(rows[i]) + "\n"));
            files.back().text.insert(std::string("recipe toy_model").size(), std::to_string(i));
        }
    }
    const RecipeLibrary library = RecipeLibrary::load(files);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Captures captures =
            rows[i].text.starts_with("l=") ? Captures{{"l", rows[i].text[2] - '0'}} : Captures{};
        std::string answer;
        const std::string error = error_of([&] {
            answer = std::to_string(
                is_refused(rows[i])
                    ? value_of(expression(rows[i]), captures)
                    : Symbols(*library.find_recipe("toy_model" + std::to_string(i)),
                              *library.find_dialect("toy"), config_of(kConfig), {}, {})
                          .value("z", captures));
        });
        EXPECT_EQ(answer.empty() ? error : answer, rows[i].answer) << rows[i].text;
    }
}

TEST(Symbols, whole_parts_of_real_numbers) {
    const Symbols symbols = symbols_with(
        "let half = floor(@half)\nlet most = floor(@half * 7)\nlet fifth = floor(@inner / 5) + 1\n"
        "let width = floor(@reals[l] * 2 * @inner / 3) else 7\nlet other = floor(@nothing * 2) "
        "else 8\n"
        "let rounded = floor(@reals[2] * 10)\nlet nowhere = floor(@half / (@inner - 12))\n"
        "let less = floor(@half * -3)\nlet large = floor(@huge * 2)\nlet text = floor(@word)\n");
    EXPECT_EQ(symbols.value("half"), 0);
    EXPECT_EQ(symbols.value("most"), 3);
    EXPECT_EQ(symbols.value("fifth"), 3);
    EXPECT_EQ(symbols.value("width", {{"l", 0}}), 21);
    EXPECT_EQ(symbols.value("width", {{"l", 1}}), 7);  // null
    EXPECT_EQ(symbols.value("width", {{"l", 3}}), 7);  // no such element
    EXPECT_EQ(symbols.value("other"), 8);
    EXPECT_EQ(symbols.value("rounded"), 3);  // in doubles 0.3 * 10 is 3
    const auto error_of_symbol = [&](const char* name) {
        return error_of([&] { return symbols.value(name); });
    };
    EXPECT_EQ(error_of_symbol("nowhere"),
              "mismatch: nowhere = floor(@half / (@inner - 12)): config.json's half makes inf, "
              "expected a size");
    EXPECT_EQ(error_of_symbol("less"),
              "mismatch: less = floor(@half * -3): config.json's half makes -1.5, expected a "
              "size");
    EXPECT_EQ(error_of_symbol("large"),
              "mismatch: large = floor(@huge * 2): config.json's huge makes "
              "9.22337e+18, expected a size");
    EXPECT_EQ(error_of_symbol("text"),
              "mismatch: text = floor(@word): config.json's word is the text \"w\", expected a "
              "number" +
                  kMend);
}

TEST(Symbols, whole_parts_are_those_of_exact_fractions) {
    std::string reals;
    for (Index i = 0; i < 2000; i += 7) {
        reals += (reals.empty() ? "" : ", ") + std::to_string(static_cast<double>(i) / 64);
    }
    const Recipe recipe =
        *RecipeLibrary::load(
             {toy_dialect(), toy_recipe("let w = floor(@mult[l] * 2 * 8191 / 3)\n")})
             .find_recipe("toy_model");
    const Dialect none;
    const Symbols symbols(recipe, none, config_of(R"({"layers": 300, "mult": [)" + reals + "]}"),
                          {}, {});
    for (Index i = 0; i < 2000; i += 7) {
        EXPECT_EQ(symbols.value("w", {{"l", i / 7}}), i * 2 * 8191 / (64 * 3)) << i;
    }
}

TEST(Symbols, captures) {
    const Symbols symbols = symbols_with(
        "flag full = @kinds[l] = \"full\" else l = 1\nflag odd = l % 2 = 1\n"
        "flag dense = @some has l\nlet width = @sizes[l] else 1\n");
    EXPECT_EQ(symbols.value("l"), 3);
    EXPECT_EQ(symbols.value("l", {{"l", 1}}), 1);
    EXPECT_EQ(symbols.value("full", {{"l", 1}}), 0);
    EXPECT_EQ(symbols.value("full", {{"l", 2}}), 1);
    EXPECT_EQ(symbols.value("odd", {{"l", 1}}), 1);
    EXPECT_EQ(symbols.value("dense", {{"l", 2}}), 1);
    EXPECT_EQ(symbols.value("dense", {{"l", 1}}), 0);
    EXPECT_EQ(symbols.value("width", {{"l", 0}}), 4);
    EXPECT_EQ(symbols.value("width", {{"l", 1}}), 1);  // null: the next alternative
    EXPECT_EQ(symbols.value("width", {{"l", 9}}), 1);  // no such element: likewise
    EXPECT_TRUE(symbols.is_index("l"));
    EXPECT_FALSE(symbols.is_index("i"));
}

TEST(Symbols, letters_and_fields_of_elements) {
    const Recipe recipe =
        *RecipeLibrary::load(
             {toy_dialect(),
              toy_recipe(
                  "flag mamba = @letters[l] = \"M\"\nlet heads = @layers_of.*.heads[l] else 6\n")})
             .find_recipe("toy_model");
    const Config config =
        config_of(R"({"letters": "M-", "layers_of": {"1": {"heads": 9}}, "layers": 2})");
    const Dialect none;
    const Symbols symbols(recipe, none, config, {}, {});
    EXPECT_EQ(symbols.value("mamba", {{"l", 0}}), 1);
    EXPECT_EQ(symbols.value("mamba", {{"l", 1}}), 0);
    EXPECT_EQ(symbols.value("heads", {{"l", 0}}), 6);
    EXPECT_EQ(symbols.value("heads", {{"l", 1}}), 9);
}

TEST(Symbols, facts_givens_and_defaults) {
    EXPECT_EQ(symbols_with("").value("i"), 12);
    EXPECT_EQ(symbols_with("", {{"t", 4}, {"vocab", 1}}).value("i"), 3);
    EXPECT_EQ(symbols_with("", {{"t", 4}, {"vocab", 1}}).value("vocab"), 7);
    EXPECT_EQ(symbols_with("given head\n").value("head"), 0);
    EXPECT_EQ(symbols_with("given head\n", {}, {{"head", 1}}).value("head"), 1);
}

TEST(Symbols, absent_fields_are_errors_only_when_used) {
    const Symbols symbols = symbols_with("let z = @nothing else @gone\nlet y = z + 1\n");
    EXPECT_EQ(symbols.try_value("z"), std::nullopt);
    EXPECT_EQ(symbols.try_value("y"), std::nullopt);
    EXPECT_EQ(symbols.try_value("nowhere"), std::nullopt);
    EXPECT_EQ(error_of([&] { return symbols.value("y"); }),
              "mismatch: y = z + 1 has no value: config.json has no nothing; "
              "config.json has no gone");
    EXPECT_EQ(error_of([&] { return symbols.value("nowhere"); }),
              "mismatch: nowhere has no value: a toy_model model has no 'nowhere'");
}

TEST(Symbols, definitions_in_a_circle_are_errors) {
    const Symbols symbols = symbols_with("let a = b + 1\nlet b = a + 1\n");
    EXPECT_EQ(error_of([&] { return symbols.value("a"); }),
              "usage: toy.recipe:14: a = b + 1 is defined by itself");
}

TEST(Symbols, conditions) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect("store n = norm2 j\n"),
         toy_recipe("hub n1 = norm2 j if l < 2\nhub n2 = norm2 j if @nothing\n")});
    const Recipe& recipe = *library.find_recipe("toy_model");
    const Symbols symbols(recipe, *library.find_dialect("toy"), config_of(kConfig), {}, {});
    EXPECT_TRUE(symbols.holds(nullptr));
    EXPECT_TRUE(symbols.holds(recipe.hub[1].condition, {{"l", 1}}));
    EXPECT_FALSE(symbols.holds(recipe.hub[1].condition, {{"l", 2}}));
    EXPECT_EQ(symbols.try_expr(recipe.hub[2].condition), std::nullopt);
    EXPECT_EQ(error_of([&] { return symbols.holds(recipe.hub[2].condition); }),
              "mismatch: '@nothing' cannot be decided: config.json has no nothing");
}

TEST(RecipeFor, takes_the_most_derived_match) {
    const RecipeLibrary library =
        RecipeLibrary::load({{"deep.recipe",
                              "recipe deep\nextends qwen3\nmatch @model_type = "
                              "\"qwen3\" and @deep\n"}});
    const auto name = [&](const char* json) { return recipe_for(library, config_of(json)).name; };
    EXPECT_EQ(name(R"({"model_type": "mistral"})"), "llama");
    EXPECT_EQ(name(R"({"model_type": "qwen3"})"), "qwen3");
    EXPECT_EQ(name(R"({"model_type": "qwen3", "deep": true})"), "deep");
    EXPECT_EQ(name(R"({"model_type": "kimi_k2"})"), "deepseek_v3");
}

TEST(RecipeFor, prefers_a_recipe_given_at_run_time) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect(), {"m.recipe", "recipe mine\nmatch @model_type = \"qwen3_moe\"\n"}});
    EXPECT_EQ(recipe_for(library, config_of(R"({"model_type": "qwen3_moe"})")).name, "mine");
    const RecipeLibrary two =
        RecipeLibrary::load({{"m.recipe", "recipe mine\nmatch @model_type = \"x\"\n"},
                             {"o.recipe", "recipe other\nmatch @model_type = \"x\"\n"}});
    EXPECT_EQ(
        error_of([&] { recipe_for(two, config_of(R"({"model_type": "x"})")); }),
        "usage: both m.recipe:1 and o.recipe:1 match config.json; let one extend the other or "
        "change its 'match'");
}

TEST(RecipeFor, lists_the_families_it_knows) {
    const std::string error = error_of(
        [] { recipe_for(RecipeLibrary::load(), config_of(R"({"model_type": "lxmert"})")); });
    EXPECT_TRUE(
        error.starts_with("unsupported: config.json: model_type is \"lxmert\", which has no "
                          "recipe; give a recipe with "
                          "--recipe; there are recipes for "))
        << error;
    for (const char* family : {"cohere", "deepseek_v3", "gemma3_text", "llama", "smollm3"}) {
        EXPECT_NE((error + ",").find(" " + std::string(family) + ","), std::string::npos) << family;
    }
}

TEST(RecipeFor, holds_the_class_against_the_model_type) {
    const auto error = [](const char* json) {
        return error_of([&] { recipe_for(RecipeLibrary::load(), config_of(json)); });
    };
    EXPECT_EQ(error(R"({"architectures": ["Qwen3MoeForCausalLM"]})"),
              "mismatch: config.json: there is no model_type, which chooses the recipe, but "
              "architectures names Qwen3MoeForCausalLM; write the model_type of the model that was "
              "trained, as \"qwen3_moe\", or give a recipe with --recipe");
    EXPECT_TRUE(error(R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt3"})")
                    .starts_with("mismatch: config.json: model_type is \"gpt3\", which has no "
                                 "recipe, but architectures names GPT2LMHeadModel; "));
    EXPECT_TRUE(error(R"({"architectures": ["Qwen3_5ForCausalLM"]})").starts_with("mismatch"));
    // A composite model's text part alone has a type of its own.
    EXPECT_TRUE(error(R"({"architectures": ["Qwen3VLForCausalLM"], "model_type": "qwen3_vl_text"})")
                    .starts_with("unsupported: config.json: model_type is \"qwen3_vl_text\""));
    // Another file in its place.
    for (const char* other : {R"({})", R"({"architectures": []})", R"({"architectures": ["For"]})",
                              R"({"architectures": ["LlamaLikeForCausalLM"]})"}) {
        EXPECT_TRUE(error(other).starts_with("mismatch: config.json: there is no model_type"))
            << other;
    }
    EXPECT_TRUE(error(R"({"architectures": ["LxmertModel"], "model_type": "lxmert"})")
                    .starts_with("unsupported"));
    // Code of its own has other tensors than the library's class of that type.
    EXPECT_TRUE(error(R"({"architectures": ["BertModel"], "model_type": "bert", "auto_map": {}})")
                    .starts_with("unsupported"));
}

}  // namespace
}  // namespace shardweld::models
