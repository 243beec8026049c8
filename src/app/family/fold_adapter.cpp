#include "fold_adapter.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/attach.hpp"
#include "adapters/parameters.hpp"
#include "core/text.hpp"
#include "outputs/output.hpp"
#include "plan/bind/folded_factors.hpp"
#include "plan/binding.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Folds one adapter.
class Folder {
  public:
    Folder(const FoldedBase& base, HeldModel& model) : base_(base), model_(model) {}

    void fold(std::vector<plan::Target> factors, std::vector<adapters::Module> modules,
              const std::vector<adapters::TokenRows>& rows) {
        for (plan::Target& target : factors) {
            target.file = kFactors;
        }
        adapters::Attachment attachment;
        const adapters::ResolvedParameters parameters =
            adapters::resolve_parameters(modules, around_parameters());
        for (const std::string& note : parameters.notes) {
            model_.binding.warnings.push_back({"adapter_settings", "", note});
        }
        attachment.parameters = parameters.by_module;
        take_uses(modules, attachment.parameters);
        const adapters::Settings settings =
            modules.empty() ? adapters::Settings() : base_.resolve_modules(modules);
        for (adapters::Module& module : modules) {
            if (auto* const use = find_value(base_.uses, module.path)) {
                module.rank *= use->n_pairs;
            }
        }
        attachment.settings = &settings;
        const auto placement = outputs::place_in_one_file(plan::output_tensors(factors), kFactors);
        for (const outputs::Slot& slot : placement.slots) {
            attachment.offsets.push_back(slot.offset);
        }
        if (model_.config.text("quantization_config.quant_method")) {
            attachment.base_hint = kInTwoSteps;
        }
        attachment.hub_name = [this](const std::string& name) { return hub_name(name); };
        attachment.is_of_tree = [this](const std::string& name) {
            return is_of_tree(model_, name);
        };
        for (const std::string& name : base_.names) {
            attachment.base_names.insert(hub_name(name));
        }
        adapters::attach(model_.binding.targets, modules, rows, attachment);
        require_all_used(factors, modules, placement);
        model_.factors = std::move(factors);
    }

  private:
    /// No factor is lost: each is in some weight.
    void require_all_used(const std::vector<plan::Target>& factors,
                          const std::vector<adapters::Module>& modules,
                          const outputs::Placement& placement) const {
        const plan::FoldedFactors folded(placement);
        std::set<std::size_t> used;
        for (const plan::Target& target : model_.binding.targets) {
            used.merge(folded.in(target));
        }
        for (const adapters::Module& module : modules) {
            for (const auto& factor : {std::optional(module.a), std::optional(module.b),
                                       module.bias, module.magnitude}) {
                if (factor && !used.contains(*factor)) {
                    throw Error(ErrorCode::unsupported,
                                printable(factors[*factor].name) +
                                    " would go into no weight: another module of the adapter "
                                    "changes the same one",
                                "use --lora split, and load base and adapter with peft");
                }
            }
        }
    }

    [[nodiscard]] std::string hub_name(const std::string& name) const {
        return plan::renamed(*model_.recipe, name);
    }

    [[nodiscard]] adapters::ParameterSurroundings around_parameters() const {
        adapters::ParameterSurroundings known;
        known.recipe = model_.recipe.get();
        known.symbols = model_.symbols.get();
        known.hub_name = [this](const std::string& name) { return hub_name(name); };
        for (const plan::Target& target : model_.binding.targets) {
            known.shapes[target.name] = target.shape;
        }
        known.config_path = base_.sources.adapter_config.path;
        known.release = adapters::release_of(base_.sources);
        return known;
    }

    /// What a framework's factors are added to, layouts have told. Modules get the rank that alpha
    /// is divided by.
    void take_uses(std::vector<adapters::Module>& modules,
                   std::map<std::size_t, adapters::LoraParameter>& parameters) const {
        std::map<std::string_view, const plan::Target*> by_name;  // the recipe's
        for (const plan::Target& target : model_.binding.targets) {
            by_name.emplace(target.name, &target);
            by_name.emplace(target.source, &target);
        }
        for (const std::size_t i : indices(modules)) {
            auto* const found = find_value(base_.uses, modules[i].path);
            if (found == nullptr) {
                continue;
            }
            const FactorUse& use = *found;
            const std::string& name = use.parameter.parts.front().target;
            auto* const at = find_value(by_name, name);
            if (at == nullptr) {
                throw Error(
                    ErrorCode::mismatch,
                    "the adapter changes " + printable(name) + ", which the base does not hold",
                    "give the model that the adapter was trained on with --base");
            }
            const plan::Target& target = **at;
            const auto n = target.shape.size();
            if (n < 2 || target.shape[n - 2] != use.n_rows || target.shape[n - 1] != use.n_cols ||
                target.volume() != use.parameter.n_batches * use.n_rows * use.n_cols) {
                throw Error(ErrorCode::mismatch,
                            name + " is " + shape_text(target.shape) +
                                ", but the adapter is for matrices of " +
                                shape_text(std::vector{use.n_rows, use.n_cols}),
                            "give the model that the adapter was trained on with --base");
            }
            modules[i].rank /= use.parameter.n_batches * use.n_pairs;
            adapters::LoraParameter& parameter = parameters[i] = use.parameter;
            parameter.parts.front().target = target.name;
        }
    }

    const FoldedBase& base_;
    HeldModel& model_;
};

}  // namespace

bool is_of_tree(const HeldModel& prepared, const std::string& name) {
    const auto value_of = [&](const std::string& symbol) {
        return prepared.symbols->value(symbol);
    };
    const std::string renamed = plan::renamed(*prepared.recipe, name);  // as its lines are called
    return std::ranges::any_of(prepared.recipe->module, [&](const models::Line& line) {
        return line.name.match(name, value_of) || line.name.match(renamed, value_of);
    });
}

void fold_adapter(const FoldedBase& base, std::vector<plan::Target> factors,
                  std::vector<adapters::Module> modules,
                  const std::vector<adapters::TokenRows>& rows, HeldModel& model) {
    Folder(base, model).fold(std::move(factors), std::move(modules), rows);
}

}  // namespace shardweld::app
