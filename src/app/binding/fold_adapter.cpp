#include "fold_adapter.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "adapters/attach.hpp"
#include "adapters/parameters.hpp"
#include "core/text.hpp"
#include "outputs/output.hpp"
#include "plan/bind/folded_factors.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// No factor is lost: each is in some weight.
void require_all_used(const plan::Targets& factors, const std::vector<adapters::Module>& modules,
                      const outputs::Placement& placement, const plan::Targets& targets) {
    const plan::FoldedFactors folded(placement);
    std::set<std::size_t> used;
    for (const plan::Target& target : targets) {
        used.merge(folded.in(target));
    }
    for (const adapters::Module& module : modules) {
        for (const auto& factor :
             {std::optional(module.a), std::optional(module.b), module.bias, module.magnitude}) {
            if (factor && !used.contains(*factor)) {
                throw Error(ErrorCode::unsupported,
                            printable(factors[*factor].name.text()) +
                                " would go into no weight: another module of the adapter changes "
                                "the same one",
                            "use --lora split, and load base and adapter with peft");
            }
        }
    }
}

/// What a framework's factors are added to, layouts have told. Modules get the rank that alpha is
/// divided by.
void take_uses(const std::map<std::string, FactorUse>& uses, const plan::Targets& targets,
               std::vector<adapters::Module>& modules,
               std::map<std::size_t, adapters::LoraParameter>& parameters) {
    std::map<std::string, const plan::Target*> by_name;  // the recipe's
    for (const plan::Target& target : targets) {
        by_name.emplace(target.name, &target);
        by_name.emplace(target.source.text(), &target);
    }
    for (const std::size_t i : indices(modules)) {
        auto* const use = find_value(uses, modules[i].path);
        if (use == nullptr) {
            continue;
        }
        const std::string& name = use->parameter.parts.front().target;
        auto* const at = find_value(by_name, name);
        if (at == nullptr) {
            throw Error(ErrorCode::mismatch,
                        "the adapter changes " + printable(name) + ", which the base does not hold",
                        adapters::kTrainedOn);
        }
        const plan::Target& target = **at;
        const auto n = target.shape.size();
        if (n < 2 || target.shape[n - 2] != use->n_rows || target.shape[n - 1] != use->n_cols ||
            target.volume() != use->parameter.n_batches * use->n_rows * use->n_cols) {
            throw Error(ErrorCode::mismatch,
                        name + " is " + shape_text(target.shape) +
                            ", but the adapter is for matrices of " +
                            shape_text(std::vector{use->n_rows, use->n_cols}),
                        adapters::kTrainedOn);
        }
        modules[i].rank /= use->parameter.n_batches * use->n_pairs;
        adapters::LoraParameter& parameter = parameters[i] = use->parameter;
        parameter.parts.front().target = target.name;
    }
}

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

void fold_adapter(const FoldedBase& base, plan::Targets factors,
                  std::vector<adapters::Module> modules,
                  const std::vector<adapters::TokenRows>& rows, HeldModel& model) {
    for (plan::Target& target : factors) {
        target.file = kFactors;
    }
    const auto hub_name = [&](const std::string& name) {
        return plan::renamed(*model.recipe, name);
    };
    adapters::ParameterSurroundings known;
    known.recipe = model.recipe.get();
    known.symbols = model.symbols.get();
    known.hub_name = hub_name;
    for (const plan::Target& target : model.binding.targets) {
        known.shapes[target.name] = target.shape;
    }
    known.config_path = base.sources.adapter_config.path;
    known.release = adapters::release_of(base.sources);
    const adapters::ResolvedParameters parameters = adapters::resolve_parameters(modules, known);
    for (const std::string& note : parameters.notes) {
        model.binding.warnings.push_back({"adapter_settings", "", note});
    }
    adapters::Attachment attachment;
    attachment.parameters = parameters.by_module;
    take_uses(base.uses, model.binding.targets, modules, attachment.parameters);
    const adapters::Settings settings =
        modules.empty() ? adapters::Settings() : base.resolve_modules(modules);
    for (adapters::Module& module : modules) {
        if (auto* const use = find_value(base.uses, module.path)) {
            module.rank *= use->n_pairs;
        }
    }
    attachment.settings = &settings;
    const auto placement = outputs::place_in_one_file(plan::output_tensors(factors), kFactors);
    attachment.offsets = collect_list(placement.slots, &outputs::Slot::offset);
    if (model.config.text("quantization_config.quant_method")) {
        attachment.base_hint = kInTwoSteps;
    }
    attachment.hub_name = hub_name;
    attachment.is_of_tree = [&](const std::string& name) { return is_of_tree(model, name); };
    attachment.base_names = collect_set(base.names, hub_name);
    adapters::attach(model.binding.targets, modules, rows, attachment);
    require_all_used(factors, modules, placement, model.binding.targets);
    model.factors = std::move(factors);
}

}  // namespace shardweld::app
