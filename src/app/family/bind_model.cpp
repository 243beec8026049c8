#include "bind_model.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "adapters/attach.hpp"
#include "adapters/modules.hpp"
#include "adapters/parameters.hpp"
#include "adapters/settings.hpp"
#include "app/settings/options.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "outputs/output.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

#include "model_files.hpp"
#include "promises.hpp"
#include "quantised.hpp"
#include "vocabulary.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

adapters::SettingsSources sources_of(const PreparedModel& prepared, const ModelFiles& files,
                                     const Options& options) {
    return {options.lora_alpha, files.adapter_config, files.train_meta,
            prepared.config.text("_name_or_path").value_or("")};
}

std::set<std::string> names_of(const Catalogue& catalogue) {
    std::set<std::string> names;
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        names.insert(tensor.name);
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        names.insert(shard.name);
    }
    return names;
}

std::set<std::string> modules_with_weight(const std::set<std::string>& names) {
    constexpr std::string_view kWeight = ".weight";
    std::set<std::string> modules;
    for (const std::string& name : names) {
        if (name.ends_with(kWeight)) {
            modules.insert(name.substr(0, name.size() - kWeight.size()));
        }
    }
    return modules;
}

constexpr const char* kInTwoSteps =
    "write the base in bf16 first (merge --backend hf --dtype bf16), then give that with --base";

const plan::Warning& dropped_warning() {
    static const plan::Warning warning{
        "adapter_dropped", "",
        "the checkpoint's LoRA adapter is left out: the weights are those of the base"};
    return warning;
}

/// Binds the parts of one checkpoint, one after the other.
class PeftBinder {
  public:
    PeftBinder(const PreparedModel& prepared, const ModelFiles& files, const Options& options)
        : prepared_(prepared),
          files_(files),
          options_(options),
          lora_(prepared.choice.lora),
          sources_(sources_of(prepared, files, options)) {}

    Bound bind(Catalogue catalogue) {
        bound_.has_model = !adapters::holds_adapter_only(catalogue);
        check_options();
        if (lora_ != Lora::drop) {
            adapters::require_plain_lora(sources_, use_of(catalogue));
        }
        const bool is_split = lora_ == Lora::split;
        adapters::Separated parts =
            adapters::separate(std::move(catalogue),
                               {is_split ? adapters::biases_of(sources_) : adapters::Biases::none,
                                lora_ == Lora::fold ? adapters::WholeModules::trained
                                                    : adapters::WholeModules::original,
                                lora_ == Lora::drop});
        if (lora_ != Lora::drop) {
            require_factors(parts.bare_modules);
        }
        base_names_ = names_of(parts.base);
        surroundings_ = {std::move(parts.whole_modules), modules_with_weight(base_names_),
                         prepared_.config.integer("num_hidden_layers"),
                         std::move(parts.saved_tensors)};
        plan::Ledger& ledger = bound_.binding.ledger;
        if (bound_.has_model) {
            require_values(parts.base);
            bound_.binding = plan::bind(
                std::move(parts.base), prepared_.model(),
                {prepared_.choice.dtype, {}, prepared_.choice.has_parts, prepared_.kept});
        } else {
            ledger.ignored = std::move(parts.base.ignored);
        }
        ledger.ignored.insert(ledger.ignored.end(), parts.replaced.begin(), parts.replaced.end());
        if (parts.adapter.tensors.empty() && parts.adapter.shards.empty()) {
            return std::move(bound_);  // PEFT's names, but nothing trained
        }
        in_both_ = std::move(parts.in_both);
        if (lora_ == Lora::drop) {
            bound_.binding.warnings.push_back(dropped_warning());
            leave_out(parts.adapter.tensors);
            leave_out(parts.adapter.shards);
            return std::move(bound_);
        }
        take_adapter(std::move(parts.adapter));
        return std::move(bound_);
    }

  private:
    /// A base that was saved with the adapter has `.base_layer.` in its names; one that was given
    /// has not.
    [[nodiscard]] adapters::AdapterUse use_of(const Catalogue& catalogue) const {
        if (lora_ != Lora::fold) {
            return adapters::AdapterUse::beside;
        }
        return adapters::holds_wrapped(catalogue) ? adapters::AdapterUse::folded
                                                  : adapters::AdapterUse::folded_into_given;
    }

    /// A cast of codes would be wrong, and a fold into them is none.
    void require_values(Catalogue& base) const {
        if (!encoded_weights(prepared_, options_, base).empty()) {
            throw Error(ErrorCode::unsupported,
                        "weights of the adapter's base are stored as codes and scales, which "
                        "--dtype does not make values beside an adapter",
                        kInTwoSteps);
        }
    }

    static void require_factors(const std::vector<std::string>& bare_modules) {
        if (!bare_modules.empty()) {
            throw Error(ErrorCode::mismatch,
                        std::to_string(bare_modules.size()) +
                            " module(s) that the adapter wraps (base_layer) have no lora_A and "
                            "lora_B: " +
                            listed(bare_modules),
                        "give a save that has them, or write the base alone with --lora drop");
        }
    }

    void check_options() const {
        if (!bound_.has_model && lora_ != Lora::split) {
            throw Error(
                ErrorCode::usage, "the checkpoint holds only a LoRA adapter",
                lora_ == Lora::fold
                    ? "give the model it was trained on with --base DIR to fold it"
                    : "leave --lora drop out: without the adapter nothing is left to write");
        }
        if (lora_ == Lora::split && !options_.output_format->takes_adapter()) {
            throw Error(ErrorCode::usage, "a LoRA adapter can only be written as safetensors",
                        "use --lora fold or --lora drop with --output_format " +
                            std::string(options_.output_format->name()));
        }
    }

    template <typename Item>
    void leave_out(const std::vector<Item>& adapter) {
        for (const Item& item : adapter) {
            if (!in_both_.contains(item.name)) {
                bound_.binding.ledger.ignore(item.name, kDroppedAdapter,
                                             catalogue::stored_bytes(item));
            }
        }
    }

    /// What the base does not have already.
    void count(const std::vector<plan::Target>& saved) {
        const auto bytes_of = [](const plan::Target& target,
                                 const std::vector<plan::Operand>& operands) {
            Bytes bytes = 0;
            for (const plan::Operand& operand : operands) {
                bytes += static_cast<Bytes>(operand.copy.volume()) * size_of(target.stored);
            }
            return bytes;
        };
        for (const plan::Target& target : saved) {
            if (!in_both_.contains(target.name)) {
                bound_.binding.ledger.consumed += bytes_of(target, target.operands);
                bound_.binding.ledger.replica += bytes_of(target, target.replicas);
            }
        }
    }

    void take_adapter(Catalogue adapter) {
        ModelChoice choice = prepared_.choice;
        choice.names = TensorNames::module;
        const PreparedModel tree = prepare_model(files_, choice, adapter);
        const bool is_folded = lora_ == Lora::fold;
        plan::Binding saved =
            plan::bind(std::move(adapter), tree.model(),
                       {is_folded ? std::optional(DType::f32) : prepared_.choice.dtype});
        count(saved.targets);
        std::vector<adapters::SavedTensor> tensors;
        for (const plan::Target& target : saved.targets) {
            tensors.push_back({target.name, target.shape});
        }
        std::vector<adapters::Module> modules = adapters::modules_of(tensors);
        if (is_folded && modules.empty()) {
            return;  // only modules trained as a whole: the base has them already
        }
        const auto idle = adapters::mark_parameters(modules, sources_);
        if (!idle.empty()) {
            warn("adapter_settings", sources_.adapter_config.path +
                                         " (target_parameters): no factors are stored of " +
                                         listed(idle));
        }
        if (is_folded) {
            fold(std::move(saved.targets), std::move(modules));
            return;
        }
        // How many experts a parameter has, its factors alone do not tell.
        std::erase_if(modules, [](const adapters::Module& one) { return one.is_parameter; });
        bound_.adapter_config = settle(modules).config_text;
        write_beside(std::move(saved));
    }

    [[nodiscard]] std::string hub_name(const std::string& name) const {
        return plan::renamed(*prepared_.recipe, name);
    }

    adapters::Settings settle(const std::vector<adapters::Module>& modules) {
        adapters::Settings settings = adapters::settle(sources_, modules, surroundings_);
        for (const std::string& note : settings.notes) {
            warn("adapter_settings", note);
        }
        return settings;
    }

    [[nodiscard]] adapters::ParameterSurroundings around_parameters() const {
        adapters::ParameterSurroundings known;
        known.recipe = prepared_.recipe.get();
        known.symbols = prepared_.symbols.get();
        known.hub_name = [this](const std::string& name) { return hub_name(name); };
        for (const plan::Target& target : bound_.binding.targets) {
            known.shapes[target.name] = target.shape;
        }
        known.peft_version = adapters::peft_version_of(sources_);
        return known;
    }

    void fold(std::vector<plan::Target> factors, std::vector<adapters::Module> modules) {
        for (plan::Target& target : factors) {
            target.file = kFactors;
        }
        adapters::Attachment attachment;
        attachment.parameters = adapters::resolve_parameters(modules, around_parameters());
        const adapters::Settings settings = settle(modules);
        attachment.settings = &settings;
        const auto placement = outputs::place_in_one_file(plan::output_tensors(factors), kFactors);
        for (const outputs::Slot& slot : placement.slots) {
            attachment.offsets.push_back(slot.offset);
        }
        if (prepared_.config.text("quantization_config.quant_method")) {
            attachment.base_hint = kInTwoSteps;
        }
        attachment.hub_name = [this](const std::string& name) { return hub_name(name); };
        for (const std::string& name : base_names_) {
            attachment.base_names.insert(hub_name(name));
        }
        adapters::attach(bound_.binding.targets, modules, attachment);
        bound_.factors = std::move(factors);
    }

    /// The adapter's tensors stand behind the model's, in a file of their own.
    void write_beside(plan::Binding saved) {
        plan::Binding& binding = bound_.binding;
        for (plan::SamePair& pair : saved.same) {
            pair.target += binding.targets.size();
            binding.same.push_back(std::move(pair));
        }
        for (plan::Target& target : saved.targets) {
            target.file = kAdapterWeights;
            binding.targets.push_back(std::move(target));
        }
        if (!bound_.has_model) {
            bound_.notes.emplace_back(
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
        bound_.binding.warnings.push_back({code, "", text});
    }

    const PreparedModel& prepared_;
    const ModelFiles& files_;
    const Options& options_;
    Lora lora_;
    adapters::SettingsSources sources_;
    std::set<std::string> base_names_;
    std::set<std::string> in_both_;
    adapters::KnownModules surroundings_;
    Bound bound_;
};

/// Names as the reference has them.
std::function<std::string(const std::string&)> spelling(const PreparedModel& prepared,
                                                        const ModelFiles& files) {
    if (files.reference.shapes.empty() || prepared.recipe->is_form) {
        return {};
    }
    return [&](const std::string& name) {
        return spelled_name(files.reference, *prepared.recipe, name);
    };
}

/// What is stored as codes becomes values.
void dequantise(const std::vector<plan::EncodedWeight>& weights, Bound& bound) {
    if (!weights.empty()) {
        bound.factors = plan::make_of_codes(bound.binding, weights, kFactors);
        bound.notes.push_back(counted(weights.size(), "weight") +
                              " are stored as codes and scales: they are written as bf16");
    }
}

Bound bind_whole(const PreparedModel& prepared, const ModelFiles& files, const Options& options,
                 Catalogue catalogue) {
    const Bytes stored = catalogue::stored_bytes(catalogue);
    Bound bound;
    if (prepared.form != nullptr && options.lora != Lora::drop &&
        (adapters::holds_adapter(catalogue) || holds_framework_adapter(catalogue))) {
        throw Error(ErrorCode::unsupported, "a model with a LoRA adapter is not written to GGUF",
                    "write it with --lora fold as safetensors, then that with --backend hf; or "
                    "leave the adapter out with --lora drop");
    }
    if (prepared.dialect->has_own_names && adapters::holds_adapter(catalogue)) {
        bound = PeftBinder(prepared, files, options).bind(std::move(catalogue));
    } else {
        if (options.lora != Lora::split && !prepared.has_dropped_adapter) {
            bound.notes.emplace_back("the checkpoint holds no LoRA adapter: --lora has no effect");
        }
        const auto encoded = encoded_weights(prepared, options, catalogue);
        bound.binding = plan::bind(std::move(catalogue), prepared.model(),
                                   {prepared.choice.dtype, spelling(prepared, files),
                                    prepared.choice.has_parts, prepared.kept});
        if (prepared.has_dropped_adapter) {
            bound.binding.warnings.push_back(dropped_warning());
        }
        dequantise(encoded, bound);
        if (!options.vocab_size) {
            require_only_padding(bound.binding.padding, files.tokens);
        }
        for (std::string& note : padding_notes(bound.binding.padding)) {
            bound.notes.push_back(std::move(note));
        }
    }
    judge_unscaled(prepared.config, options, bound.binding);
    if (bound.has_model) {
        std::ranges::move(broken_promises(prepared, files, bound.binding.targets),
                          std::back_inserter(bound.binding.warnings));
    }
    if (options.selection.include || options.selection.exclude) {
        select(bound.binding, options.selection);
    }
    bound.binding.ledger.stored = stored;
    bound.binding.ledger.require_closed();
    return bound;
}

}  // namespace

Bound bind_model(const PreparedModel& prepared, const ModelFiles& files, const Options& options,
                 Catalogue catalogue) {
    const auto ranks = catalogue.facts.find(formats::kShardRanks);
    const Index n_ranks = ranks == catalogue.facts.end() ? 0 : ranks->second;
    try {
        return bind_whole(prepared, files, options, std::move(catalogue));
    } catch (Error& error) {
        if (n_ranks > 0 && error.code() == ErrorCode::mismatch) {
            error.set_hint((error.hint().empty() ? "" : error.hint() + "; or ") + "the files of " +
                           counted(static_cast<std::size_t>(n_ranks), "rank") +
                           " are here, and none says how many there were: if the run had more, "
                           "copy theirs");
        }
        throw;
    }
}

}  // namespace shardweld::app
