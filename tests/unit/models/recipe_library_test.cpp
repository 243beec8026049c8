// Files together: at blocks, stacked forms, extends, and the checks where files meet.
#include <algorithm>

#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

std::vector<std::string> texts_of(const std::vector<Line>& lines) {
    std::vector<std::string> texts;
    for (const Line& line : lines) {
        texts.push_back(line.name.text + " = " + line.logical + " : " + line.layout.text +
                        (line.optional ? " optional" : ""));
    }
    return texts;
}

/// The toy files and a recipe that extends toy_model by `text`.
RecipeLibrary with_child(const std::string& text) {
    return RecipeLibrary::load({toy_dialect(),
                                toy_recipe(),
                                {"child.recipe", "recipe child\nextends toy_model\n" + text}});
}

TEST(RecipeLibrary, expands_blocks_alternatives_and_stacked_forms) {
    const RecipeLibrary library = RecipeLibrary::load({toy_dialect()});
    const Dialect& toy = *library.find_dialect("toy");
    EXPECT_EQ(texts_of(toy.store), (std::vector<std::string>{
                                       "emb = emb : [v: vocab | pad: *] j",
                                       "dec.{l}.w.a = layer.{l}.w : (t [x: i | y: i]) j",
                                       "dec.w.a = layer.{l}.w : l (t [x: i | y: i]) j",
                                       "dec.{l}.w.b = layer.{l}.w : (t [x: i | y: i]) j",
                                       "dec.w.b = layer.{l}.w : l (t [x: i | y: i]) j",
                                       "dec.{l}.norm = layer.{l}.norm : j",
                                       "dec.norm = layer.{l}.norm : l j",
                                   }));
    EXPECT_EQ(toy.store[1].join->steps[0].dim, 0);
    EXPECT_EQ(toy.store[2].join->steps[0].dim, 1);
}

TEST(RecipeLibrary, child_lines_replace_all_of_the_name) {
    const RecipeLibrary library = with_child(
        "block layer\n"
        "  norm.weight = norm j if i = 1\n"
        "  norm.weight = norm j if i = 2\n");
    EXPECT_EQ(
        texts_of(library.find_recipe("child")->hub),
        (std::vector<std::string>{
            "emb = emb : v: vocab j", "m.{l}.x.weight = layer.{l}.w : x: (t i) j",
            "m.{l}.y.weight = layer.{l}.w : y: (t i) j", "m.{l}.norm.weight = layer.{l}.norm : j",
            "m.{l}.norm.weight = layer.{l}.norm : j"}));
    EXPECT_EQ(library.find_recipe("child")->depth, 1);
    EXPECT_EQ(library.find_recipe("child")->match, nullptr);
    EXPECT_EQ(library.find_recipe("child")->verified, std::vector<std::string>());
}

TEST(RecipeLibrary, what_verifies_is_not_inherited) {
    const std::string stated = "verified by a, b-c\n";
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect(), toy_recipe(stated), {"child.recipe", "recipe child\nextends toy_model\n"}});
    EXPECT_EQ(library.find_recipe("toy_model")->verified, (std::vector<std::string>{"a", "b-c"}));
    EXPECT_EQ(library.find_recipe("child")->verified, std::vector<std::string>());
}

// Laws of `with`: a part's statements stand between those of the base, which it changes, and the
// file's own, which change both; `match` stays each file's own.
TEST(RecipeLibrary, parts_come_between_the_base_and_the_file) {
    const RecipeFile part{"part.recipe",
                          "recipe part\nlet k = 1\nlet j = 2\nblock layer\n  norm.weight = norm "
                          "j if k > 0\n  x.weight = w x: (t i) j if k > 0\n"};
    const RecipeFile child{"child.recipe",
                           "recipe child\nextends toy_model\nwith part\nlet k = 3\nblock layer\n"
                           "  norm.weight = norm j\n"};
    const RecipeLibrary library = RecipeLibrary::load({toy_dialect(), toy_recipe(), part, child});
    const Recipe& recipe = *library.find_recipe("child");
    EXPECT_EQ(recipe.symbols.at("k").origin, "child.recipe:4");
    EXPECT_EQ(recipe.symbols.at("j").origin, "part.recipe:3");
    const auto origins = [&](const std::string& name) {
        std::vector<std::string> found;
        for (const Line& line : recipe.hub) {
            if (line.name.text == name) {
                found.push_back(line.origin);
            }
        }
        return found;
    };
    EXPECT_EQ(origins("m.{l}.norm.weight"), std::vector<std::string>{"child.recipe:6"});
    EXPECT_EQ(origins("m.{l}.x.weight"), std::vector<std::string>{"part.recipe:6"});
    EXPECT_EQ(recipe.match, nullptr);
    EXPECT_NE(library.find_recipe("toy_model")->match, nullptr);
}

TEST(RecipeLibrary, without_and_guard_change_inherited_lines) {
    const RecipeLibrary library = with_child(
        "block layer\n  without x.weight\n  {y.weight|norm.weight} if l > 0\n  y.weight if l < "
        "3\n");
    const Recipe& child = *library.find_recipe("child");
    EXPECT_EQ(texts_of(child.hub),
              (std::vector<std::string>{"emb = emb : v: vocab j",
                                        "m.{l}.y.weight = layer.{l}.w : y: (t i) j",
                                        "m.{l}.norm.weight = layer.{l}.norm : j"}));
    const Symbols symbols(child, *library.find_dialect("toy"),
                          config_of(R"({"inner": 4, "outer": 5, "layers": 4})"), {}, {});
    EXPECT_EQ(hub_names(child, symbols),
              (std::vector<std::string>{"emb [7, 5]", "m.1.y.weight [4, 5]", "m.2.y.weight [4, 5]",
                                        "m.1.norm.weight [5]", "m.2.norm.weight [5]",
                                        "m.3.norm.weight [5]"}));
}

TEST(RecipeLibrary, edits_that_meet_nothing_are_errors) {
    const auto error = [](const std::string& text) { return error_of([&] { with_child(text); }); };
    EXPECT_EQ(error("block layer\n  without z.weight\n"),
              "usage: child.recipe:4: no inherited line 'z.weight' to leave out");
    EXPECT_EQ(error("block layer\n  z.weight if l\n"),
              "usage: child.recipe:4: no inherited line 'z.weight' to guard");
    EXPECT_EQ(error("block layer\n  own = norm j\n  own if l\n"),
              "usage: child.recipe:5: no inherited line 'own' to guard");
}

TEST(RecipeLibrary, optional_block_makes_its_lines_optional) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect("block extra\n  norm = norm j\nat x.{k}. = extra.{k}. extra\n"),
         toy_recipe("index k = 2\nlet L = @layers\nblock extra\n  n = norm j if l = 5\n"
                    "at m.{k+L}. = extra.{k}. extra optional\n")});
    const Recipe& recipe = *library.find_recipe("toy_model");
    EXPECT_EQ(texts_of(recipe.hub).back(), "m.{k+L}.n = extra.{k}.norm : j optional");
    const Symbols symbols(recipe, *library.find_dialect("toy"),
                          config_of(R"({"inner": 4, "outer": 5, "layers": 4})"), {}, {});
    // The condition sees the layer's number: of k = 0 and 1 only the second is layer 5.
    EXPECT_EQ(hub_names(recipe, symbols).back(), "m.5.n [5]");
    EXPECT_EQ(hub_names(recipe, symbols).size(), 14U);
}

TEST(RecipeLibrary, symbols_of_a_child_hide_inherited_ones) {
    const RecipeLibrary library = with_child("index vocab = 9\n");
    const Recipe& child = *library.find_recipe("child");
    EXPECT_TRUE(child.symbols.at("vocab").is_index);
}

TEST(RecipeLibrary, extends_is_bounded) {
    std::vector<RecipeFile> files{toy_dialect(), toy_recipe()};
    std::string base = "toy_model";
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
        files.push_back({std::string(name) + ".recipe",
                         "recipe " + std::string(name) + "\nextends " + base + "\n"});
        base = name;
    }
    EXPECT_EQ(error_of_load(files), "no error");
    files.push_back({"i.recipe", "recipe i\nextends h\n"});
    EXPECT_EQ(error_of_load(files), "usage: i.recipe:1: more than 8 'extends' in a row");
    EXPECT_EQ(error_of_load(
                  {{"a.recipe", "recipe a\nextends b\n"}, {"b.recipe", "recipe b\nextends a\n"}}),
              "usage: a.recipe:1: 'a' extends itself");
    EXPECT_EQ(error_of_load({{"a.recipe", "recipe a\nextends megatron_core\n"}}),
              "usage: a.recipe:1: there is no recipe 'megatron_core' to extend");
    EXPECT_EQ(error_of_load({{"a.recipe", "recipe a\nuses nothing\n"}}),
              "usage: a.recipe:1: there is no dialect 'nothing' to use");
    EXPECT_EQ(error_of_load({{"a.recipe", "recipe a\nwith b\n"}}),
              "usage: a.recipe:1: there is no recipe 'b' to take with it");
    EXPECT_EQ(error_of_load({{"a.recipe", "recipe a\nwith qwen2\n"}}),
              "usage: a.recipe:1: the recipe 'qwen2' is no part: it extends another one");
}

TEST(RecipeLibrary, extra_file_replaces_a_built_in_one) {
    const RecipeFile mine{"mine.recipe", "recipe gemma\nextends llama\n"};
    const RecipeLibrary library = RecipeLibrary::load({mine});
    EXPECT_EQ(library.find_recipe("gemma")->origin, "mine.recipe:1");
    EXPECT_EQ(library.source_of("gemma")->text, mine.text);
    EXPECT_TRUE(library.find_recipe("gemma")->is_extra);
    EXPECT_EQ(error_of_load({mine, {"two.recipe", "recipe gemma\n"}}),
              "usage: two.recipe:1: 'gemma' is declared a second time; the first is mine.recipe:1");
}

TEST(RecipeLibrary, axes_must_agree_where_files_meet) {
    EXPECT_EQ(
        error_of_load({toy_dialect("store n2 = norm2 j\n"), toy_recipe("hub n = norm2 vocab\n")}),
        "usage: toy.recipe:14: norm2 has the axes vocab, but j in toy.dialect:9");
    EXPECT_EQ(
        error_of_load({toy_dialect("store n.{l} = norm2 j\n"), toy_recipe("hub n = norm2 j\n")}),
        "usage: toy.recipe:14: norm2 has the axes j, but j l in toy.dialect:9");
    EXPECT_EQ(
        error_of_load({toy_dialect("store n.{l} = norm2 j\n"), toy_recipe("hub n = norm2 j l\n")}),
        "no error");
    // Lines that exclude each other need not agree; what a reader decides may be either.
    EXPECT_EQ(
        error_of_load({toy_dialect("store n = norm2 j if off\nstore n = norm2 vocab if not off\n"
                                   "default off = 1\n"),
                       toy_recipe("hub n = norm2 j\n")}),
        "no error");
    EXPECT_EQ(error_of_load({toy_dialect("store n = norm2 j if t = 1\n"
                                         "store n = norm2 vocab if t != 1\n"),
                             toy_recipe()}),
              "usage: toy.dialect:10: norm2 has the axes vocab, but j in toy.dialect:9");
}

TEST(RecipeLibrary, a_replaced_file_is_held_against_what_rests_on_it) {
    const RecipeLibrary built_in = RecipeLibrary::load();
    const auto changed = [&](const char* name, const std::string& from, const std::string& to) {
        std::string text = built_in.source_of(name)->text;
        text.replace(text.find(from), from.size(), to);
        return error_of_load({{"mine", text}});
    };
    EXPECT_EQ(changed("llama", "# Llama", "# My Llama"), "no error");
    const std::string of_part = changed("qwen_tower", "= fc2         hv fv", "= fc2         hv dt");
    EXPECT_NE(of_part.find("vision.{v}.fc2 has the axes"), std::string::npos) << of_part;
    const std::string of_base = changed("llama", "let    vocab = ", "let    words = ");
    EXPECT_NE(of_base.find("does not define 'vocab'"), std::string::npos) << of_base;
    const std::string of_dialect =
        changed("megatron_core", "= ffn_norm       h", "= ffn_norm       d");
    EXPECT_NE(of_dialect.find("ffn_norm has the axes"), std::string::npos) << of_dialect;
}

TEST(RecipeLibrary, fused_axes_count_as_the_axis_they_make) {
    const std::string stored = "store n = norm2 (t j2)\n";
    EXPECT_EQ(error_of_load({toy_dialect(stored), toy_recipe("hub n = norm2 j\n")}),
              "usage: toy.recipe:14: norm2 has the axes j, but j2 t in toy.dialect:9");
    const RecipeLibrary library =
        RecipeLibrary::load({toy_dialect(stored + "fuse j = t j2\ndefault j2 = j / t\n"),
                             toy_recipe("hub n = norm2 j\n")});
    EXPECT_EQ(library.find_dialect("toy")->fuse.at("j"), (std::vector<std::string>{"t", "j2"}));
}

TEST(RecipeLibrary, stacked_form_refuses_conditions_on_the_layer) {
    EXPECT_EQ(error_of_load({{"s.dialect",
                              "dialect s\nblock b\n  w = w j if l > 1\n"
                              "at d.{l}. = layer.{l}. b stacked l\n"}}),
              "usage: s.dialect:3: the condition uses l, which has no single value in the "
              "stacked form");
    EXPECT_EQ(
        error_of_load({{"s.dialect", "dialect s\nblock b\n  w = w j\nat d. = x. b stacked l\n"}}),
        "usage: s.dialect:4: the name 'd.' has no '{l}.' to leave out");
}

TEST(RecipeLibrary, dialect_that_extends_a_used_one_is_met) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect(), toy_recipe(), {"o.dialect", "dialect other\nextends toy\n"}});
    const Recipe& recipe = *library.find_recipe("toy_model");
    EXPECT_TRUE(library.can_meet(recipe, *library.find_dialect("other")));
    EXPECT_FALSE(library.can_meet(recipe, *library.find_dialect("megatron_core")));
    EXPECT_EQ(library.find_dialect("other")->facts, (std::vector<std::string>{"t"}));
    EXPECT_EQ(library.find_dialect("other")->store.size(), 7U);
}

TEST(RecipeLibrary, whose_names_a_dialect_uses_is_known_without_its_lines) {
    const RecipeLibrary library =
        RecipeLibrary::load({{"o.dialect", "dialect other\nextends hf_module\n"}});
    std::size_t with_own_names = 0;
    for (const Dialect* const dialect : library.dialects()) {
        EXPECT_EQ(library.has_own_names(dialect->name), dialect->has_own_names) << dialect->name;
        with_own_names += dialect->has_own_names ? 1 : 0;
    }
    EXPECT_TRUE(library.has_own_names("other"));
    EXPECT_LT(with_own_names, library.dialects().size());
    EXPECT_FALSE(library.has_own_names("nobody"));
}

/// The places of a dialect's lines under each name with numbers hidden, and how many of them are
/// for one of these logical tensors.
struct NamedLines {
    std::map<std::string, std::multiset<std::string>> places;
    std::size_t n_of_recipe = 0;

    NamedLines(const Dialect& dialect, const std::set<std::string>& logicals) {
        for (const Line& line : dialect.store) {
            places[digits_hidden(line.name)].insert(line.origin + line.layout.text);
            n_of_recipe += logicals.contains(line.logical) ? 1U : 0U;
        }
    }
};

TEST(RecipeLibrary, a_familys_dialect_has_every_line_of_its_names) {
    const RecipeLibrary library = RecipeLibrary::load();
    std::size_t n_all = 0;
    std::size_t n_few = 0;
    for (const Recipe* const recipe : library.recipes()) {
        std::set<std::string> logicals;
        for (const auto* const lines : {&recipe->hub, &recipe->module}) {
            for (const Line& line : *lines) {
                logicals.insert(line.logical);
            }
        }
        for (const Dialect* const whole : library.dialects()) {
            if (whole->has_own_names || !library.can_meet(*recipe, *whole)) {
                continue;
            }
            const NamedLines all(*whole, logicals);
            const NamedLines few(library.dialect_for(*recipe, whole->name), logicals);
            EXPECT_EQ(few.n_of_recipe, all.n_of_recipe) << recipe->name;
            n_all += all.places.size();
            n_few += few.places.size();
            for (const auto& [shape, places] : few.places) {
                EXPECT_EQ(places, all.places.at(shape)) << recipe->name << " " << shape;
            }
        }
    }
    EXPECT_LT(4 * n_few, n_all);
}

}  // namespace
}  // namespace shardweld::models
