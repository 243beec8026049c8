#include "settings.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "contradictions.hpp"
#include "declared.hpp"
#include "target_modules.hpp"

namespace shardweld::adapters {

namespace {

using nlohmann::ordered_json;

/// As JSON: whole numbers without a fraction.
ordered_json number(double value) {
    constexpr double kExact = 9e15;
    const bool is_whole = std::abs(value) < kExact && value == std::floor(value);
    return is_whole ? ordered_json(static_cast<Index>(value)) : ordered_json(value);
}

std::string text_of(double value) {
    return number(value).dump();
}

/// "TaskType.CAUSAL_LM", as Python prints its enumerations, is meant as "CAUSAL_LM".
void strip_enumeration(ordered_json& value) {
    if (value.is_string()) {
        const auto text = value.get<std::string>();
        value = text.substr(text.rfind('.') + 1);
    }
}

/// Reads what is declared and settles it with what is stored.
class SettingsResolver {
  public:
    SettingsResolver(const SettingsSources& sources, std::span<const Module> modules,
                     const KnownModules& surroundings)
        : sources_(sources),
          modules_(modules),
          surroundings_(surroundings),
          declared_(sources.adapter_config.json()),
          meta_(sources.train_meta.json()),
          config_(declared_) {
        plain_ = filter_list(modules, [](const Module& module) { return !module.is_parameter; });
    }

    Settings resolve() {
        require_few_patterns(declared_, sources_.adapter_config, modules_.size());
        settle_alpha();
        settle_ranks();
        settle_kinds();
        note_converted();
        append_all(settings_.notes,
                   contradictions(declared_, sources_.adapter_config, modules_, surroundings_));
        settle_names();
        note_defaults();
        settings_.scales =
            collect_list(modules_, [&](const Module& module) { return scale(module); });
        for (const Module& module : modules_) {
            name_pairs(module);
        }
        settings_.config_text = with_nonfinite(config_.dump(2)) + "\n";
        return std::move(settings_);
    }

  private:
    /// An alpha that --lora_alpha stands for need not be one.
    std::optional<double> alpha_in(const ordered_json& json, const char* field,
                                   const ConfigFile& file) {
        try {
            return positive(json, field, file);
        } catch (const Error& error) {
            if (!sources_.alpha) {
                throw Error(error.code(), error.what(), error.hint() + ", or give --lora_alpha");
            }
            settings_.notes.push_back(std::string(error.what()) + "; --lora_alpha is taken");
            return std::nullopt;
        }
    }

    void settle_alpha() {
        const auto declared = alpha_in(declared_, "lora_alpha", sources_.adapter_config);
        const auto trained = alpha_in(meta_, "lora_alpha", sources_.train_meta);
        const auto found = declared ? declared : trained;
        if (sources_.alpha && found && *sources_.alpha != *found) {
            settings_.notes.push_back(
                "--lora_alpha " + text_of(*sources_.alpha) + " is used, though " +
                (declared ? sources_.adapter_config : sources_.train_meta).path + " says " +
                text_of(*found));
        }
        if (declared && trained && *declared != *trained && !sources_.alpha) {
            settings_.notes.push_back("lora_alpha is " + text_of(*declared) + " in " +
                                      sources_.adapter_config.path + " and " + text_of(*trained) +
                                      " in " + sources_.train_meta.path + ": using the first");
        }
        const auto alpha = sources_.alpha ? sources_.alpha : found;
        if (!alpha) {
            throw Error(ErrorCode::mismatch,
                        "the checkpoint holds a LoRA adapter but no lora_alpha (in " +
                            sources_.adapter_config.path + " or " + sources_.train_meta.path +
                            "; 0 means unknown)",
                        "give the one it was trained with as --lora_alpha, or leave the adapter "
                        "out with --lora drop");
        }
        alpha_ = *alpha;
        config_["lora_alpha"] = number(alpha_);
    }

    [[nodiscard]] double declared_rank(const Module& module, double plain) const {
        return by_pattern(declared_, "rank_pattern", module.path).value_or(plain);
    }

    /// Ranks are those of the weights; r becomes the commonest when the config is wrong.
    void settle_ranks() {
        const auto declared = positive(declared_, "r", sources_.adapter_config);
        const auto trained = positive(meta_, "r", sources_.train_meta);
        const double plain = declared ? *declared : trained.value_or(0);
        const auto wrong = [&](const Module& one) {
            return declared_rank(one, plain) != static_cast<double>(one.rank);
        };
        auto* const first = find_where(modules_, wrong);
        if (modules_.empty() && plain <= 0) {
            throw Error(ErrorCode::mismatch,
                        "no file says the rank of the adapter, which the factors of parameters "
                        "alone do not tell",
                        "put its adapter_config.json beside it");
        }
        if (plain > 0 && first == nullptr) {
            config_["r"] = number(plain);
            return;
        }
        if (plain > 0) {
            const std::string has_rank = "the adapter of " + printable(first->path) + " has rank " +
                                         std::to_string(first->rank);
            const std::string& path =
                (declared ? sources_.adapter_config : sources_.train_meta).path;
            const bool is_all = std::ranges::all_of(modules_, wrong);
            if (is_all && !sources_.alpha) {
                throw Error(ErrorCode::mismatch,
                            path + " says rank " + text_of(plain) + ", but " + has_rank +
                                ": the file is another adapter's, and so may be its lora_alpha",
                            "put this adapter's file there, or give --lora_alpha");
            }
            if (!is_all) {
                throw Error(
                    ErrorCode::mismatch,
                    has_rank + ", where " + path + " says " +
                        text_of(declared_rank(*first, plain)) +
                        " and that of other modules is so: nothing says how this one is "
                        "scaled, and peft does not load it",
                    "name its rank in rank_pattern there, and in alpha_pattern the alpha "
                    "that goes with it (adapters joined by add_weighted_adapter: its rank)");
            }
            settings_.notes.push_back(has_rank + ", not " + text_of(declared_rank(*first, plain)) +
                                      " as the configuration says: using that of the weights");
        }
        take_ranks_of_weights();
    }

    void take_ranks_of_weights() {
        std::map<Index, std::size_t> counts;
        for (const Module& module : modules_) {
            ++counts[module.rank];
        }
        const auto commonest =
            std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
        const Index rank = commonest == counts.end() ? 0 : commonest->first;
        config_["r"] = rank;
        config_["rank_pattern"] = ordered_json::object();
        for (const Module& module : modules_) {
            if (module.rank != rank) {
                config_["rank_pattern"][module.path] = module.rank;
            }
        }
    }

    [[nodiscard]] bool is_on(const char* field) const {
        return declared_.contains(field) ? flag(declared_, field, sources_.adapter_config)
                                         : flag(meta_, field, sources_.train_meta);
    }

    /// Whether modules have a part that PEFT gives all of them or none.
    [[nodiscard]] bool has(std::optional<std::size_t> Module::*part, const char* field,
                           const char* component) const {
        const auto has_it = [&](const Module& one) { return (one.*part).has_value(); };
        const bool is_expected = is_on(field) || std::ranges::any_of(modules_, has_it);
        auto* const bare = find_where(modules_, [&](const Module& one) {
            return !has_it(one) && (part != &Module::bias || !one.is_embedding);
        });
        if (is_expected && bare != nullptr) {
            throw Error(
                ErrorCode::mismatch,
                "the adapter of " + printable(bare->path) + " has no " + component + ", which " +
                    (is_on(field) ? sources_.adapter_config.path + " (" + field + ") promises"
                                  : std::string("other modules' adapters have")) +
                    ": the checkpoint is incomplete");
        }
        return is_expected;
    }

    void settle_kinds() {
        config_["use_rslora"] = is_on("use_rslora");
        config_["use_dora"] = has(&Module::magnitude, "use_dora", "lora_magnitude_vector");
        const bool has_bias = has(&Module::bias, "lora_bias", "lora_B.bias");
        if (has_bias || config_.contains("lora_bias")) {
            config_["lora_bias"] = has_bias;
        }
        settings_.fan_in_fan_out = is_on("fan_in_fan_out");
        config_["fan_in_fan_out"] = settings_.fan_in_fan_out;
    }

    /// What PEFT makes of factors of gate and up, which are one parameter of experts since
    /// transformers 5: rank and alpha are doubled, and with rsLoRA that is another scale.
    void note_converted() {
        const ordered_json none = ordered_json::object();
        const ordered_json alphas = declared_.value("alpha_pattern", none);
        const ordered_json ranks = declared_.value("rank_pattern", none);
        const ordered_json rank = declared_.value("r", ordered_json());
        if (!is_on("use_rslora") || !alphas.is_object() || !ranks.is_object() ||
            !rank.is_number()) {
            return;
        }
        for (const auto& [module, alpha] : alphas.items()) {
            const bool is_doubled = module.starts_with(".*") && ranks.contains(module) &&
                                    alpha == number(2 * alpha_) &&
                                    ranks[module] == number(2 * rank.get<double>());
            if (is_doubled) {
                settings_.notes.push_back(
                    sources_.adapter_config.path + " doubles rank and alpha of " +
                    printable(module) +
                    ", as PEFT does with an adapter of single experts that it saves again: with "
                    "use_rslora that is sqrt(2) times what was trained before, and so it is read, "
                    "as by PEFT; fold the adapter as it was saved first if it was not trained on");
            }
        }
    }

    void settle_names() {
        config_["peft_type"] = "LORA";
        config_["inference_mode"] = true;
        // peft keeps it out of what it saves and cannot read it back.
        config_.erase("runtime_config");
        if (!config_.contains("task_type")) {
            config_["task_type"] = meta_.value("task_type", ordered_json());
        }
        strip_enumeration(config_["task_type"]);
        set_missing("base_model_name_or_path", sources_.base_model.empty()
                                                   ? ordered_json()
                                                   : ordered_json(sources_.base_model));
        set_missing("lora_dropout", 0.0);
        set_missing("bias", "none");
        set_missing("rank_pattern", ordered_json::object());
        set_missing("alpha_pattern", ordered_json::object());
        set_missing("modules_to_save", ordered_json());
        if (meta_.contains(kParameters)) {
            set_missing(kParameters, meta_[kParameters]);
        }
        if (!names_all(config_["modules_to_save"], surroundings_.whole_modules)) {
            config_["modules_to_save"] = last_components(surroundings_.whole_modules);
        }
        if (!covers(config_.value("target_modules", ordered_json()), plain_)) {
            config_["target_modules"] = target_modules(plain_, surroundings_);
            if (surroundings_.base_modules.empty() && !surroundings_.n_layers) {
                settings_.notes.emplace_back(
                    "there is no config.json of the adapter's base: base_model_name_or_path stays "
                    "unknown, and target_modules names modules one by one");
            }
        }
    }

    /// What PEFT's defaults stand for because no file says it.
    void note_defaults() {
        if (sources_.adapter_config.text.empty() && !meta_.contains("use_rslora")) {
            settings_.notes.push_back(
                "there is no " + sources_.adapter_config.path +
                ": that factors are scaled by alpha / r (no use_rslora, no alpha_pattern) and that "
                "no bias was trained is PEFT's default, not said by any file");
        }
    }

    void set_missing(const char* field, ordered_json value) {
        if (!config_.contains(field) || (config_[field].is_null() && !value.is_null())) {
            config_[field] = std::move(value);
        }
    }

    [[nodiscard]] double alpha_of(const Module& module) const {
        return by_pattern(declared_, "alpha_pattern", module.path).value_or(alpha_);
    }

    /// PEFT has one pair for a module: of a higher rank, with an alpha that scales it as before.
    void name_pairs(const Module& module) {
        if (module.n_pairs > 1) {
            const auto n = static_cast<double>(module.n_pairs);
            const auto put_first = [&](const char* field, const ordered_json& value) {
                ordered_json patterns = ordered_json::object();
                patterns[module.path] = value;  // the first one that matches counts
                patterns.update(config_[field]);
                config_[field] = std::move(patterns);
            };
            put_first("rank_pattern", module.rank * module.n_pairs);
            put_first("alpha_pattern",
                      number(alpha_of(module) * (is_on("use_rslora") ? std::sqrt(n) : n)));
        }
    }

    [[nodiscard]] double scale(const Module& module) const {
        const double alpha = alpha_of(module);
        if (!(std::isfinite(alpha) && alpha > 0)) {
            throw Error(ErrorCode::mismatch,
                        sources_.adapter_config.path + " gives " + printable(module.path) +
                            " the alpha " + text_of(alpha),
                        "correct alpha_pattern");
        }
        const auto rank = static_cast<double>(module.rank);
        return is_on("use_rslora") ? alpha / std::sqrt(rank) : alpha / rank;
    }

    const SettingsSources& sources_;
    std::span<const Module> modules_;
    std::vector<Module> plain_;  ///< named by target_modules, not target_parameters
    const KnownModules& surroundings_;
    const ordered_json& declared_;
    const ordered_json& meta_;
    ordered_json config_;  ///< as it is written
    double alpha_ = 0;
    Settings settings_;
};

}  // namespace

Biases biases_of(const SettingsSources& sources) {
    const auto* const stored = stated(sources.adapter_config.json(), "bias");
    if (stored == nullptr || !stored->is_string() || *stored == "none") {
        return Biases::none;
    }
    return *stored == "all" ? Biases::all : Biases::of_wrapped;
}

Release release_of(const SettingsSources& sources) {
    return release_of(sources.adapter_config.json());
}

void require_plain_lora(const SettingsSources& sources, AdapterUse use) {
    require_plain(sources.adapter_config.json(), sources.adapter_config, use);
}

Settings resolve_settings(const SettingsSources& sources, std::span<const Module> modules,
                          const KnownModules& surroundings) {
    return SettingsResolver(sources, modules, surroundings).resolve();
}

}  // namespace shardweld::adapters
