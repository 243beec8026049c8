// Alpha, scales and adapter_config.json, settled from weights, files and options.
#include "adapters/settings.hpp"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "adapters/peft_names.hpp"
#include "support/error_text.hpp"

namespace shardweld::adapters {
namespace {

using nlohmann::ordered_json;
using List = std::vector<std::string>;

std::string saved(const std::string& path, const std::string& component) {
    return std::string(kPrefix) + path + "." + component;
}

void add(std::vector<SavedTensor>& tensors, const std::string& path, Index rank) {
    tensors.push_back({saved(path, "lora_A.weight"), {rank, 6}});
    tensors.push_back({saved(path, "lora_B.weight"), {8, rank}});
}

std::vector<Module> two_layers(Index rank = 4) {
    std::vector<SavedTensor> tensors;
    for (const char* path : {"model.layers.0.q_proj", "model.layers.1.q_proj"}) {
        add(tensors, path, rank);
    }
    return modules_of(tensors);
}

SettingsSources sources(const std::string& config, const std::string& meta = "") {
    return {std::nullopt, {"adapter_config.json", config}, {"lora_train_meta.json", meta}, ""};
}

ordered_json config_of(const Settings& settings) {
    return ordered_json::parse(settings.config_text);
}

TEST(Modules, AreReadFromNamesAndShapes) {
    std::vector<SavedTensor> tensors;
    add(tensors, "model.up", 3);
    tensors.push_back({saved("model.up", "lora_magnitude_vector"), {8}});
    tensors.push_back({saved("model.up", "lora_B.bias"), {8}});
    tensors.push_back({saved("model.embed", "lora_embedding_A"), {2, 50}});
    tensors.push_back({saved("model.embed", "lora_embedding_B"), {16, 2}});
    tensors.push_back({saved("score", "weight"), {1, 6}});
    const auto modules = modules_of(tensors);
    ASSERT_EQ(modules.size(), 2U);
    EXPECT_EQ(modules[0].path, "model.embed");
    EXPECT_TRUE(modules[0].is_embedding);
    EXPECT_EQ(modules[0].n_in, 50);
    EXPECT_EQ(modules[0].n_out, 16);
    EXPECT_EQ(modules[1].rank, 3);
    EXPECT_EQ(modules[1].n_in, 6);
    EXPECT_EQ(modules[1].n_out, 8);
    EXPECT_EQ(modules[1].magnitude, 2U);
    EXPECT_EQ(modules[1].bias, 3U);
}

TEST(Modules, WithoutPartnersOrWithOtherShapesAreRefused) {
    EXPECT_EQ(
        test::error_text([] {
            (void)modules_of(std::vector<SavedTensor>{{saved("m.q", "lora_A.weight"), {4, 6}}});
        }),
        "mismatch: the adapter of m.q has no lora_B: the checkpoint is incomplete");
    std::vector<SavedTensor> tensors;
    add(tensors, "m.q", 4);
    tensors[1].shape = {8, 5};
    EXPECT_EQ(test::error_text([&] { (void)modules_of(tensors); }),
              "mismatch: base_model.model.m.q.lora_B.weight is [8, 5], expected [8, 4] after the "
              "module's other factors");
    tensors[1].shape = {8};
    EXPECT_NE(test::error_text([&] { (void)modules_of(tensors); }), "");
}

TEST(Settings, WhatNoFileSaysIsTold) {
    const auto modules = two_layers();
    const auto notes = [&](const std::string& config, const KnownModules& surroundings) {
        return resolve_settings(sources(config, R"({"lora_alpha": 4})"), modules, surroundings)
            .notes.size();
    };
    const KnownModules base{{}, {"model.layers.0.q_proj"}, std::nullopt};
    EXPECT_EQ(notes(R"({"r": 4, "lora_alpha": 4})", base), 0U);
    EXPECT_EQ(notes(R"({"r": 4, "lora_alpha": 4})", {{}, {}, 2}), 0U);
    EXPECT_EQ(notes("", base), 1U);
    EXPECT_EQ(notes("", {}), 2U);
    EXPECT_NE(test::error_text([&] {
                  notes("", {{}, {}, 1});
              }).find("factors of model.layers.1.q_proj, but config.json says num_hidden_layers 1"),
              std::string::npos);
}

TEST(Settings, AlphaComesFromTheSurestSource) {
    const auto modules = two_layers();
    const KnownModules none{{}, {}, 2};
    const std::string config = R"({"r": 4, "lora_alpha": 10})";
    const std::string meta = R"({"r": 4, "lora_alpha": 12, "task_type": "CAUSAL_LM"})";
    const Settings both = resolve_settings(sources(config, meta), modules, none);
    EXPECT_EQ(both.scales, (std::vector<double>{2.5, 2.5}));
    ASSERT_EQ(both.notes.size(), 1U);  // the contradiction
    EXPECT_EQ(resolve_settings(sources("", meta), modules, none).scales[0], 3);
    EXPECT_EQ(config_of(resolve_settings(sources("", meta), modules, none))["task_type"],
              "CAUSAL_LM");
    SettingsSources given = sources(config);
    given.alpha = 8;
    const Settings asked = resolve_settings(given, modules, none);
    EXPECT_EQ(asked.scales[0], 2);
    EXPECT_EQ(asked.notes.size(), 1U);
    EXPECT_EQ(config_of(asked)["lora_alpha"].dump(), "8");
}

TEST(Settings, AnAlphaThatNobodySaysIsAskedFor) {
    for (const char* meta : {"", R"({"r": 4, "lora_alpha": 0})", R"({"lora_alpha": "16"})"}) {
        const std::string text =
            test::error_text([&] { resolve_settings(sources("", meta), two_layers(), {}); });
        EXPECT_NE(text.find("mismatch: "), std::string::npos) << text;
        EXPECT_NE(text.find("--lora_alpha"), std::string::npos) << text;
    }
}

TEST(Settings, RanksAreThoseOfTheWeights) {
    std::vector<SavedTensor> tensors;
    add(tensors, "m.0.q", 4);
    add(tensors, "m.1.q", 4);
    add(tensors, "m.2.q", 8);
    const auto modules = modules_of(tensors);
    // peft does not load single modules of another rank, and nothing says how they are scaled.
    for (const bool is_given : {false, true}) {
        SettingsSources joined = sources(R"({"r": 8, "lora_alpha": 16})");
        joined.alpha = is_given ? std::optional(16.0) : std::nullopt;
        const std::string text = test::error_text([&] {
            (void)resolve_settings(joined, modules, {{}, {}, 3});
        });
        EXPECT_NE(text.find("mismatch: the adapter of m.0.q has rank 4"), std::string::npos)
            << text;
        EXPECT_NE(text.find("rank_pattern"), std::string::npos) << text;
    }
    // A rank that no module has tells another adapter's file, whose alpha is not to be trusted.
    SettingsSources other = sources(R"({"r": 16, "lora_alpha": 16})");
    EXPECT_THROW((void)resolve_settings(other, modules, {{}, {}, 3}), Error);
    other.alpha = 32;
    const Settings asked = resolve_settings(other, modules, {{}, {}, 3});
    EXPECT_EQ(asked.scales, (std::vector<double>{8, 8, 4}));
    EXPECT_EQ(config_of(asked)["r"], 4);
    EXPECT_EQ(config_of(asked)["rank_pattern"].dump(), R"({"m.2.q":8})");
    EXPECT_EQ(asked.notes.size(), 2U);  // the ranks, and the alpha that is given
    // A configuration that is right stays as it is.
    const std::string right =
        R"({"r": 4, "lora_alpha": 16, "rank_pattern": {"2.q": 8}, "alpha_pattern": {"[01].q": 32}})";
    const Settings kept = resolve_settings(sources(right), modules, {{}, {}, 3});
    EXPECT_EQ(config_of(kept)["rank_pattern"].dump(), R"({"2.q":8})");
    EXPECT_EQ(kept.scales, (std::vector<double>{8, 8, 2}));
    EXPECT_TRUE(kept.notes.empty());
}

TEST(Settings, RsLoraDividesByTheRoot) {
    const Settings settings = resolve_settings(
        sources(R"({"r": 4, "lora_alpha": 10, "use_rslora": true})"), two_layers(), {});
    EXPECT_EQ(settings.scales[0], 10 / std::sqrt(4.0));
    EXPECT_EQ(config_of(settings)["use_rslora"], true);
}

// peft matches the end of a path from a dot on, and '.' for any character.
TEST(Settings, PatternsMatchTheEndsOfPaths) {
    const auto alpha = [](const std::string& pattern) {
        const ordered_json config{{"r", 4}, {"lora_alpha", 4}, {"alpha_pattern", {{pattern, 8}}}};
        return resolve_settings(sources(config.dump()), two_layers(), {}).scales[0];
    };
    EXPECT_EQ(alpha("q_proj"), 2);
    EXPECT_EQ(alpha("proj"), 1);
    EXPECT_EQ(alpha("0.q_proj"), 2);
    EXPECT_EQ(alpha("layers.0.q_proj"), 2);
    EXPECT_EQ(alpha("layers.1.q_proj"), 1);
    EXPECT_EQ(alpha("layers\\.[0-3]\\..*"), 2);
    EXPECT_EQ(alpha("^model.layers.0.q_proj"), 2);
    EXPECT_EQ(alpha("^layers.0.q_proj"), 1);
    EXPECT_EQ(alpha("layers\\.\\d{1,2}\\.q_proj"), 2);
}

TEST(Settings, HostilePatternsEndSoon) {
    for (const std::string pattern : {"(a+)+$", "(.*)*(.*)*(.*)*x", "((((("}) {
        const ordered_json config{{"r", 4}, {"lora_alpha", 4}, {"alpha_pattern", {{pattern, 8}}}};
        std::vector<SavedTensor> tensors;
        add(tensors, std::string(200, 'a') + ".b", 4);
        (void)test::error_text(
            [&] { resolve_settings(sources(config.dump()), modules_of(tensors), {}); });
    }
    for (const std::string& pattern : {std::string("(a{999}){999}"), std::string(1000, '('),
                                       std::string("(?!a)b"), std::string("(a)\\1")}) {
        const ordered_json config{{"r", 4}, {"lora_alpha", 4}, {"alpha_pattern", {{pattern, 8}}}};
        EXPECT_NE(test::error_text([&] {
                      resolve_settings(sources(config.dump()), two_layers(), {});
                  }).find("write it as a module name"),
                  std::string::npos);
    }
    EXPECT_NE(test::error_text([] {
                  resolve_settings(
                      sources(R"({"r":4,"lora_alpha":4,"alpha_pattern":{"q_proj":0}})"),
                      two_layers(), {});
              }).find("mismatch"),
              std::string::npos);
}

std::string plain_error(const std::string& config, AdapterUse use = AdapterUse::beside) {
    return test::error_text([&] { require_plain_lora(sources(config), use); });
}

TEST(Settings, RefuseWhatIsNoPlainLora) {
    EXPECT_EQ(plain_error(R"({"peft_type": "LOHA"})"),
              "unsupported: adapter_config.json says peft_type \"LOHA\": the adapter is of "
              "another method; merge it with peft itself");
    EXPECT_EQ(plain_error(R"({"layer_replication": [[0, 2]]})").substr(0, 11), "unsupported");
    for (const char* config :
         {R"({"peft_type": "LORA", "target_parameters": null, "layer_replication": []})",
          R"({"peft_type": "PeftType.LORA"})", "{}", ""}) {
        EXPECT_EQ(plain_error(config, AdapterUse::folded_into_given), "no error") << config;
    }
}

TEST(Settings, RefuseToFoldWhatIsMoreThanAProduct) {
    for (const char* field : {R"("alora_invocation_tokens": [5])", R"("use_qalora": true)",
                              R"("use_bdlora": {"nblocks": 2})", R"("kasa_config": {"beta": 1})"}) {
        const std::string config = "{" + std::string(field) + "}";
        EXPECT_EQ(plain_error(config), "no error") << field;
        EXPECT_NE(plain_error(config, AdapterUse::folded).find("use --lora split"),
                  std::string::npos)
            << field;
    }
    const std::string pissa = R"({"init_lora_weights": "pissa_niter_4"})";
    EXPECT_EQ(plain_error(pissa, AdapterUse::folded), "no error");
    EXPECT_EQ(plain_error(pissa, AdapterUse::folded_into_given).substr(0, 11), "unsupported");
    EXPECT_EQ(plain_error(R"({"init_lora_weights": "gaussian"})", AdapterUse::folded_into_given),
              "no error");
}

std::string settle_error(const std::string& config, std::optional<double> alpha = {}) {
    return test::error_text([&] {
        SettingsSources from = sources(config, R"({"r": 4, "lora_alpha": 8})");
        from.alpha = alpha;
        (void)resolve_settings(from, two_layers(), {});
    });
}

TEST(Settings, FieldsThatHoldNoValueOfTheirKindAreRefused) {
    for (const char* value : {"-1", "\"16\"", "true", "[8]", "NaN", "Infinity"}) {
        const std::string config = R"({"r": 4, "lora_alpha": )" + std::string(value) + "}";
        EXPECT_EQ(settle_error(config),
                  "mismatch: adapter_config.json says lora_alpha " + std::string(value) +
                      ", expected a number above 0; correct it, or give --lora_alpha");
        EXPECT_EQ(settle_error(config, 8), "no error") << value;
    }
    EXPECT_EQ(settle_error(R"({"r": 4, "lora_alpha": 8, "use_rslora": "yes"})"),
              "mismatch: adapter_config.json says use_rslora \"yes\", expected true or false; "
              "correct it");
    EXPECT_EQ(settle_error(R"({"r": -4, "lora_alpha": 8})").substr(0, 8), "mismatch");
    EXPECT_EQ(settle_error(R"({"r": 4, "lora_alpha": 8, "alpha_pattern": {"q_proj": "16"}})")
                  .substr(0, 8),
              "mismatch");
}

TEST(Settings, PartsThatOnlySomeModulesHaveAreMissing) {
    EXPECT_EQ(settle_error(R"({"r": 4, "use_dora": true})"),
              "mismatch: the adapter of model.layers.0.q_proj has no lora_magnitude_vector, which "
              "adapter_config.json (use_dora) promises: the checkpoint is incomplete");
    EXPECT_EQ(settle_error(R"({"r": 4, "lora_bias": true})").substr(0, 8), "mismatch");
    std::vector<SavedTensor> tensors;
    for (const char* path : {"m.0.q", "m.1.q"}) {
        add(tensors, path, 4);
    }
    tensors.push_back({saved("m.1.q", "lora_magnitude_vector"), {8}});
    EXPECT_EQ(test::error_text([&] {
                  (void)resolve_settings(sources(R"({"r": 4, "lora_alpha": 8})"),
                                         modules_of(tensors), {});
              }),
              "mismatch: the adapter of m.0.q has no lora_magnitude_vector, which other modules' "
              "adapters have: the checkpoint is incomplete");
}

TEST(Settings, NamesOfModulesStandForAllOrAreWholePaths) {
    const auto targets = [](const KnownModules& surroundings) {
        return config_of(resolve_settings(sources(R"({"r": 4, "lora_alpha": 4})"), two_layers(),
                                          surroundings))["target_modules"]
            .get<List>();
    };
    const List paths{"model.layers.0.q_proj", "model.layers.1.q_proj"};
    EXPECT_EQ(targets({{}, {"model.layers.0.q_proj", "model.layers.1.q_proj", "model.norm"}, {}}),
              (List{"q_proj"}));
    EXPECT_EQ(
        targets({{}, {"model.layers.0.q_proj", "model.layers.1.q_proj", "vision.q_proj"}, {}}),
        paths);
    EXPECT_EQ(targets({{}, {}, 2}), (List{"q_proj"}));
    EXPECT_EQ(targets({{}, {}, 3}), paths);
    EXPECT_EQ(targets({}), paths);
}

TEST(Settings, FieldsOfTheConfigurationAreKeptOrCorrected) {
    const Settings settings = resolve_settings(
        sources(R"({"task_type": "TaskType.CAUSAL_LM", "peft_type": "PeftType.LORA", "r": 4,
                    "lora_alpha": 10, "target_modules": "{'q_proj'}", "inference_mode": false,
                    "runtime_config": {"x": 1}, "lora_dropout": 0.1, "mine": [1]})"),
        two_layers(), {{"a.score", "b.score"}, {}, 2});
    const ordered_json config = config_of(settings);
    EXPECT_EQ(config["task_type"], "CAUSAL_LM");
    EXPECT_EQ(config["peft_type"], "LORA");
    EXPECT_EQ(config["inference_mode"], true);
    EXPECT_EQ(config["target_modules"].dump(), R"(["q_proj"])");
    EXPECT_EQ(config["modules_to_save"].dump(), R"(["score"])");
    EXPECT_EQ(config["lora_dropout"], 0.1);
    EXPECT_EQ(config["mine"].dump(), "[1]");
    EXPECT_FALSE(config.contains("runtime_config"));
    const std::string expression =
        R"({"r": 4, "lora_alpha": 10, "target_modules": ".*\\.(q|k)_proj"})";
    EXPECT_EQ(config_of(resolve_settings(sources(expression), two_layers(), {}))["target_modules"],
              ".*\\.(q|k)_proj");
}

TEST(Settings, FilesThatAreNoObjectsAreCorrupt) {
    for (const std::string& text :
         {std::string("[1]"), std::string("{"), std::string("\"x\""),
          "{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}"}) {
        EXPECT_NE(test::error_text([&] {
                      resolve_settings(sources(text), two_layers(), {});
                  }).find("corrupt"),
                  std::string::npos);
    }
}

TEST(Settings, BiasesAreReadFromTheConfiguration) {
    EXPECT_EQ(biases_of(sources("")), Biases::none);
    EXPECT_EQ(biases_of(sources(R"({"bias": "none"})")), Biases::none);
    EXPECT_EQ(biases_of(sources(R"({"bias": "all"})")), Biases::all);
    EXPECT_EQ(biases_of(sources(R"({"bias": "lora_only"})")), Biases::of_wrapped);
}

/// Of a single expert, as transformers 4 has them.
std::vector<Module> of_expert() {
    std::vector<SavedTensor> tensors;
    for (const char* name : {"down_proj", "gate_proj", "up_proj"}) {
        add(tensors, std::string("model.layers.0.mlp.experts.1.") + name, 4);
    }
    return modules_of(tensors);
}

// PEFT 0.21 with transformers 5 drops the entries of gate and up, and scales them by sqrt(2) more.
TEST(Settings, ScaleSingleExpertsAsTrained) {
    const std::string patterns =
        R"({"r": 4, "lora_alpha": 8, "alpha_pattern": {"gate_proj": 32, "up_proj": 32}})";
    EXPECT_EQ(resolve_settings(sources(patterns), of_expert(), {}).scales,
              (std::vector<double>{2, 8, 8}));
    const std::string stabilised = R"({"r": 4, "lora_alpha": 8, "use_rslora": true})";
    EXPECT_EQ(resolve_settings(sources(stabilised), of_expert(), {}).scales,
              (std::vector<double>{4, 4, 4}));
}

// What PEFT has converted and saved again is scaled as PEFT does, and said.
TEST(Settings, NoteConvertedScales) {
    std::vector<SavedTensor> tensors;
    add(tensors, "model.layers.0.mlp.experts.gate_up_proj", 8);
    add(tensors, "model.layers.0.self_attn.q_proj", 4);
    const auto notes = [&](const std::string& rslora) {
        std::size_t n = 0;
        const Settings settings = resolve_settings(
            sources(
                R"({"r": 4, "lora_alpha": 8, "rank_pattern": {".*\\.gate_up_proj": 8}, "alpha_pattern": {".*\\.gate_up_proj": 16}, "use_rslora": )" +
                rslora + "}"),
            modules_of(tensors), {});
        for (const std::string& note : settings.notes) {
            n += note.find("sqrt(2)") == std::string::npos ? 0U : 1U;
        }
        EXPECT_EQ(settings.scales[0], rslora == "true" ? 16 / std::sqrt(8.0) : 2);
        return n;
    };
    EXPECT_EQ(notes("true"), 1U);
    EXPECT_EQ(notes("false"), 0U);
}

TEST(Settings, RefuseMoreExpressionsThanCanBeMatched) {
    ordered_json patterns;
    for (int i = 0; i < 20'001; ++i) {
        patterns["(q|" + std::to_string(i) + ")_proj"] = 4;
    }
    const ordered_json config = {{"lora_alpha", 8}, {"r", 4}, {"alpha_pattern", patterns}};
    std::vector<SavedTensor> tensors;
    for (int i = 0; i < 20; ++i) {
        add(tensors, "model.layers." + std::to_string(i) + ".q_proj", 4);
    }
    EXPECT_EQ(test::error_text(
                  [&] { resolve_settings(sources(config.dump()), modules_of(tensors), {}); }),
              "unsupported: adapter_config.json: alpha_pattern has 20001 entries for 20 modules, "
              "too many of them expressions; write module names");
}

TEST(Settings, RefuseDeepAndWideTexts) {
    const std::string refused =
        "corrupt: adapter_config.json is nested too deeply or has too many fields";
    const std::string deep = "{\"r\": " + std::string(70, '[') + std::string(70, ']') + "}";
    EXPECT_EQ(test::error_text([&] { resolve_settings(sources(deep), two_layers(), {}); }),
              refused);
    std::string wide = "{";
    for (int i = 0; i < 40'000; ++i) {
        wide += "\"" + std::to_string(i) + "\":0,";
    }
    EXPECT_EQ(
        test::error_text([&] { resolve_settings(sources(wide + "\"r\":1}"), two_layers(), {}); }),
        refused);
}

}  // namespace
}  // namespace shardweld::adapters
