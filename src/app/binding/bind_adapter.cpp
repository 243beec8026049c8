#include "bind_adapter.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "adapters/parameters.hpp"
#include "adapters/peft_names.hpp"
#include "adapters/settings.hpp"
#include "adapters/token_rows.hpp"
#include "app/family/model_files.hpp"
#include "app/family/prepare_model.hpp"
#include "app/family/respelled.hpp"
#include "app/family/vocabulary.hpp"
#include "app/settings/job.hpp"
#include "catalogue/catalogue.hpp"
#include "core/names/natural_order.hpp"
#include "core/text.hpp"
#include "plan/bind/sorted_targets.hpp"
#include "shardweld/error.hpp"

#include "adapter_base.hpp"
#include "bind_alone.hpp"
#include "bind_options.hpp"
#include "fold_adapter.hpp"
#include "framework_adapter.hpp"
#include "quantised.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

adapters::SettingsSources sources_of(const HeldModel& model, const Job& job) {
    return {job.model.lora_alpha, model.files.adapter_config, model.files.train_meta,
            model.config.text("_name_or_path").value_or("")};
}

std::set<std::string> names_of(const Catalogue& catalogue) {
    return collect_set(catalogue::distinct_names(catalogue),
                       [](const std::string* name) { return *name; });
}

std::set<std::string> modules_with_weight(const std::set<std::string>& names) {
    constexpr std::string_view kWeight = ".weight";
    return collect_set(
        names,
        [&](const std::string& name) { return name.substr(0, name.size() - kWeight.size()); },
        [&](const std::string& name) { return name.ends_with(kWeight); });
}

const Warning& dropped_warning() {
    static const Warning warning{
        "adapter_dropped", "",
        "the checkpoint's LoRA adapter is left out: the weights are those of the base"};
    return warning;
}

/// Binds base and adapter of one checkpoint, one after the other.
class AdapterBinder {
  public:
    AdapterBinder(HeldModel& model, const Job& job)
        : model_(model), job_(job), lora_(model.choice.lora), sources_(sources_of(model, job)) {}

    void bind(Catalogue catalogue) {
        if (model_.framework == nullptr) {
            bind_peft(std::move(catalogue));
        } else {
            bind_framework(std::move(catalogue));
        }
        plan::spell_targets(model_.binding, spelling_of(model_));
        write_beside(std::move(beside_));
    }

  private:
    /// Both have the names of PEFT's modules.
    void bind_peft(Catalogue catalogue) {
        model_.has_model = !adapters::holds_adapter_only(catalogue);
        // A base that was saved with the adapter has `.base_layer.` in its names.
        require_readable_adapter(adapters::holds_wrapped(catalogue));
        adapters::Separated parts = adapters::separate(
            std::move(catalogue),
            {lora_ == Lora::split ? adapters::biases_of(sources_) : adapters::Biases::none,
             lora_ == Lora::fold ? adapters::WholeModules::trained
                                 : adapters::WholeModules::original,
             lora_ == Lora::drop,
             [&](const std::string& name) { return plan::renamed(*model_.recipe, name); }});
        if (lora_ != Lora::drop) {
            require_factors(parts.bare_modules);
        }
        if (lora_ == Lora::split && !parts.grouped.empty()) {
            throw Error(ErrorCode::unsupported,
                        printable(parts.grouped) +
                            " holds the factors of all experts, and which parameters of PEFT's "
                            "class these are, only the base tells",
                        "give the base with --base and use --lora fold");
        }
        const auto rows = grown_rows(model_.config, parts.adapter);
        try {
            bind_base(std::move(parts.base), model_.model());
        } catch (Error& error) {
            if (rows) {
                error.set_hint("the adapter has " + std::to_string(*rows) +
                               " rows of the vocabulary, which grew before it was trained: give "
                               "--vocab_size " +
                               std::to_string(*rows));
            }
            throw;
        }
        plan::Ledger& ledger = model_.binding.ledger;
        append_all(ledger.ignored, std::move(parts.replaced));
        if (parts.adapter.tensors.empty() && parts.adapter.shards.empty()) {
            return;  // PEFT's names, but nothing trained
        }
        in_both_ = std::move(parts.in_both);
        if (lora_ == Lora::drop) {
            model_.binding.warnings.push_back(dropped_warning());
            leave_out(parts.adapter, ledger);
            return;
        }
        surround(std::move(parts.whole_modules), std::move(parts.saved_tensors));
        join_tied_rows(model_, parts.adapter);
        take_adapter(bind_saved(std::move(parts.adapter)));
    }

    /// The adapter has a framework's names, and so has a base that was saved with it.
    void bind_framework(Catalogue catalogue) {
        const HeldModel& framework = *model_.framework;
        const bool has_own_base = !model_.dialect->has_own_names;
        Catalogue stored = app::take_adapter(catalogue, *framework.dialect->lora);
        model_.has_model = !catalogue.tensors.empty() || !catalogue.shards.empty();
        require_readable_adapter(model_.has_model && has_own_base);
        if (lora_ == Lora::drop) {
            plan::Ledger left_out;
            leave_out(stored, left_out);
            append_all(catalogue.ignored, std::move(left_out.ignored));
            bind_alone(model_, job_, std::move(catalogue));
            model_.binding.warnings.push_back(dropped_warning());
            return;
        }
        const bool is_folded = lora_ == Lora::fold;
        const plan::BindOptions bind_options{dtype_of_adapter()};
        std::optional<HeldModel> tree;
        if (!is_folded) {
            tree = module_tree_of(framework, stored);
        }
        FrameworkAdapter adapter = bind_framework_adapter(
            std::move(stored), framework, bind_options,
            is_folded ? bind_options_of(model_) : bind_options, !is_folded, pointer_to(tree));
        require_only_padding(adapter.trained.padding, model_.files.tokens);
        models::Recipe recipe = *model_.recipe;
        if (is_folded) {
            need_not_hold(adapter.trained.targets, *model_.symbols, recipe);
        }
        bind_base(std::move(catalogue), {&recipe, model_.dialect.get(), model_.symbols.get()});
        model_.binding.ledger.stored = adapter.repeated;
        uses_ = std::move(adapter.uses);
        say_of_uses();
        if (has_own_base) {
            base_names_.clear();
            for (plan::Target& target : model_.binding.targets) {
                target.source = target.name.text();  // which adapters know it by
                base_names_.insert(target.name);
            }
        }
        std::vector<std::string> whole_modules =
            collect_list(adapter.trained.targets, [](const plan::Target& target) {
                const std::string name = target.name;
                return name.substr(0, name.rfind('.'));
            });
        surround(std::move(whole_modules), {});
        if (is_folded) {
            put_in_place(std::move(adapter.trained), model_.binding);
        } else {
            append_all(adapter.factors.targets, std::move(adapter.trained.targets));
            add_to_account(adapter.trained.ledger, model_.binding.ledger);
        }
        take_adapter(saved_beside(std::move(adapter.factors), model_.has_model && has_own_base));
    }

    [[nodiscard]] std::optional<DType> dtype_of_adapter() const {
        return lora_ == Lora::fold ? std::optional(DType::f32) : model_.choice.output.dtype;
    }

    void require_readable_adapter(bool is_saved_with_base) const {
        check_options();
        if (lora_ != Lora::drop) {
            adapters::require_plain_lora(
                sources_, lora_ != Lora::fold  ? adapters::AdapterUse::beside
                          : is_saved_with_base ? adapters::AdapterUse::folded
                                               : adapters::AdapterUse::folded_into_given);
        }
    }

    void bind_base(Catalogue base, const plan::Model& model) {
        base_names_ = names_of(base);
        if (model_.has_model) {
            require_values(base);
            model_.binding = plan::bind(std::move(base), model, bind_options_of(model_));
        } else {
            model_.binding.ledger.ignored = std::move(base.ignored);
        }
    }

    void surround(std::vector<std::string> whole_modules, std::vector<std::string> saved_tensors) {
        surroundings_ = {std::move(whole_modules), modules_with_weight(base_names_),
                         model_.config.integer("num_hidden_layers"), std::move(saved_tensors)};
    }

    /// A framework's adapter as save_pretrained names it, with biases of the base that were
    /// trained, too.
    plan::Binding saved_beside(plan::Binding adapter, bool has_own_base) {
        if (has_own_base && lora_ == Lora::split &&
            adapters::biases_of(sources_) == adapters::Biases::all) {
            for (const plan::Target& target : model_.binding.targets) {
                if (target.name.text().ends_with(".bias")) {
                    adapter.targets.push_back(target);
                    in_both_.insert(adapters::kPrefix + target.name.text());
                }
            }
        }
        for (plan::Target& target : adapter.targets) {
            target.name = adapters::kPrefix + target.name.text();
        }
        const auto compared = collect_list(adapter.same, [&](const plan::SamePair& pair) {
            return adapter.targets[pair.target].name;
        });
        sort_naturally(adapter.targets, &plan::Target::name);
        for (const std::size_t i : indices(compared)) {
            adapter.same[i].target =
                as_size(std::ranges::find(adapter.targets, compared[i], &plan::Target::name) -
                        adapter.targets.begin());
        }
        return adapter;
    }

    /// Whether weights of the adapter's base are codes that are read as values.
    bool has_codes(Catalogue& base) const {
        try {
            return !encoded_weights(model_, job_, base).empty();
        } catch (Error& error) {
            if (job_.model.base && error.code() == ErrorCode::unsupported) {
                error.set_hint(
                    "leave --base out: the adapter is then written alone, for servers that load it "
                    "on the quantised base; to fold it, give a base that the library which "
                    "quantised it has dequantised");
            }
            throw;
        }
    }

    /// A cast of codes would be wrong, and a fold into them is none.
    void require_values(Catalogue& base) const {
        if (has_codes(base)) {
            throw Error(ErrorCode::unsupported,
                        "weights of the adapter's base are stored as codes and scales, which "
                        "--dtype does not make values beside an adapter",
                        kInTwoSteps);
        }
    }

    static void require_factors(const std::vector<std::string>& bare_modules) {
        if (!bare_modules.empty()) {
            throw Error(ErrorCode::mismatch,
                        counted(bare_modules.size(), "module") +
                            " that the adapter wraps (base_layer) " +
                            verb_of(bare_modules.size(), "has", "have") +
                            " no lora_A and lora_B: " + listed(bare_modules),
                        "give a save that has them, or write the base alone with --lora drop");
        }
    }

    void check_options() const {
        if (!model_.has_model && lora_ != Lora::split) {
            throw Error(
                ErrorCode::usage, "the checkpoint holds only a LoRA adapter",
                lora_ == Lora::fold
                    ? "give the model it was trained on with --base DIR to fold it"
                    : "leave --lora drop out: without the adapter nothing is left to write");
        }
        if (lora_ == Lora::split && !job_.run.plan.output_format->takes_adapter()) {
            throw Error(ErrorCode::usage, "a LoRA adapter can only be written as safetensors",
                        "use --lora fold or --lora drop with --output_format " +
                            std::string(job_.run.plan.output_format->name()));
        }
    }

    /// Counts the adapter's tensors as ignored, but for those that the base has, too.
    void leave_out(const Catalogue& adapter, plan::Ledger& ledger) const {
        const auto ignore = [&](const auto& item) {
            if (!in_both_.contains(item.name)) {
                ledger.ignore(item.name, "an adapter (--lora drop)", catalogue::stored_bytes(item));
            }
        };
        catalogue::each_item(adapter, ignore);
    }

    plan::Binding bind_saved(Catalogue adapter) const {
        JobModel choice = model_.choice;
        choice.has_module_names = true;
        const HeldModel tree = prepare_model(model_.files, choice, adapter);
        return plan::bind(std::move(adapter), tree.model(), {dtype_of_adapter()});
    }

    void take_adapter(plan::Binding saved) {
        for (const plan::Target& target : saved.targets) {
            if (!in_both_.contains(target.name)) {
                model_.binding.ledger.count(target);
            }
        }
        add_to_account(saved.ledger, model_.binding.ledger);
        std::vector<adapters::SavedTensor> tensors;
        for (const plan::Target& target : saved.targets) {
            tensors.push_back({target.name, target.shape});
        }
        std::vector<adapters::Module> modules = adapters::modules_of(tensors);
        const bool is_folded = lora_ == Lora::fold;
        const std::vector<adapters::TokenRows> rows =
            adapters::token_rows_of(tensors, sources_.adapter_config);
        if (is_folded && modules.empty() && rows.empty()) {
            return;  // only modules trained as a whole: the base has them already
        }
        const auto idle = adapters::mark_parameters(modules, sources_);
        if (!idle.empty()) {
            warn("adapter_settings", sources_.adapter_config.path +
                                         " (target_parameters): no factors are stored of " +
                                         listed(idle));
        }
        if (is_folded) {
            const auto resolve = [&](const std::vector<adapters::Module>& all) {
                return resolve_modules(all);
            };
            fold_adapter({sources_, uses_, base_names_, resolve}, std::move(saved.targets),
                         std::move(modules), rows, model_);
            return;
        }
        require_base_of(modules, base_names_, model_);
        // How many experts a parameter has, its factors alone do not tell.
        std::erase_if(modules, [](const adapters::Module& one) { return one.is_parameter; });
        for (adapters::Module& module : modules) {
            if (const auto use = uses_.find(module.path); use != uses_.end()) {
                module.n_pairs = use->second.n_pairs;
                module.rank /= module.n_pairs;
            }
        }
        model_.adapter_config = resolve_modules(modules).config_text;
        beside_ = std::move(saved);
    }

    adapters::Settings resolve_modules(std::vector<adapters::Module> modules) {
        if (const auto& respelled = model_.choice.respelled; !respelled.empty()) {
            std::set<std::string> base_modules = collect_set(
                surroundings_.base_modules,
                [&](const std::string& path) { return original_path(respelled, path); });
            surroundings_.base_modules = std::move(base_modules);
            for (adapters::Module& module : modules) {
                module.path = original_path(respelled, module.path);
            }
        }
        adapters::Settings settings = adapters::resolve_settings(sources_, modules, surroundings_);
        for (const std::string& note : settings.notes) {
            warn("adapter_settings", note);
        }
        return settings;
    }

    /// What the layouts of a framework's factors tell of the modules, whatever no file says.
    void say_of_uses() {
        nlohmann::ordered_json said = sources_.train_meta.json();
        std::vector<std::string> predicting;
        for (const auto& [path, use] : uses_) {
            if (use.is_prediction) {
                predicting.push_back(path);
            }
            if (use.is_module && use.parameter.is_turned) {
                said["fan_in_fan_out"] = true;
            }
            if (!use.is_module && lora_ == Lora::split) {
                said[adapters::kParameters].push_back(path);
                said.emplace("r", use.rank);
            }
        }
        sources_.train_meta = {sources_.train_meta.path, said.dump()};
        if (!predicting.empty() && lora_ == Lora::split) {
            warn("adapter_settings",
                 "the adapter changes " + counted(predicting.size(), "module") +
                     " of layers that predict further tokens (MTP): " + listed(predicting) +
                     ": they are written under the names that the hub's files have, but no class "
                     "that PEFT loads has them, and it leaves their factors out without an error; "
                     "--lora fold adds them to the weights");
        }
    }

    /// The adapter's tensors stand behind the model's, in a file of their own.
    void write_beside(plan::Binding saved) {
        if (saved.targets.empty()) {
            return;
        }
        plan::Binding& binding = model_.binding;
        for (plan::SamePair& pair : saved.same) {
            pair.target += binding.targets.size();
            binding.same.push_back(std::move(pair));
        }
        for (plan::Target& target : saved.targets) {
            target.file = kAdapterWeights;
            binding.targets.push_back(std::move(target));
        }
        if (!model_.has_model) {
            model_.binding_notes.emplace_back(
                "the checkpoint holds only a LoRA adapter: it is written to lora_adapter/; --base "
                "DIR gives the model it was trained on, to be written beside it or, with --lora "
                "fold, with it");
            return;
        }
        warn(
            "adapter_not_folded",
            "the written model is the base WITHOUT the LoRA adapter, which is written beside it to "
            "lora_adapter/: load both with peft, or merge again with --lora fold to add it to the "
            "weights");
    }

    void warn(const std::string& code, const std::string& text) {
        model_.binding.warnings.push_back({code, "", text});
    }

    HeldModel& model_;
    const Job& job_;
    Lora lora_;
    adapters::SettingsSources sources_;
    std::set<std::string> base_names_;
    std::set<std::string> in_both_;
    std::map<std::string, FactorUse> uses_;  ///< of a framework's factors
    adapters::KnownModules surroundings_;
    plan::Binding beside_;  ///< the adapter, where it is split off
};

}  // namespace

void bind_with_adapter(HeldModel& model, const Job& job, Catalogue catalogue) {
    AdapterBinder(model, job).bind(std::move(catalogue));
}

}  // namespace shardweld::app
