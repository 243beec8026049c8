#include "adapter_base.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "adapters/separate.hpp"
#include "adapters/token_rows.hpp"
#include "app/family/vocabulary.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "fold_adapter.hpp"

namespace shardweld::app {

using catalogue::Catalogue;

namespace {

/// Whether the hub calls a logical tensor so.
bool is_called(const models::Recipe& recipe, const std::string& logical, const std::string& name) {
    return std::ranges::any_of(recipe.hub, [&](const models::Line& line) {
        return line.logical == logical && line.name.text == name;
    });
}

/// A head that is the embedding's matrix, and is not stored.
bool is_tied_head(const models::Recipe& recipe, const std::string& name) {
    return std::ranges::any_of(recipe.same, [&](const models::SameRule& rule) {
        return is_called(recipe, rule.a, name) || is_called(recipe, rule.b, name);
    });
}

}  // namespace

void need_not_hold(const plan::Targets& trained, const models::Symbols& symbols,
                   models::Recipe& recipe) {
    const auto value_of = [&](const std::string& symbol) { return symbols.value(symbol); };
    for (models::Line& line : recipe.hub) {
        line.optional =
            line.optional || std::ranges::any_of(trained, [&](const plan::Target& target) {
                return line.name.match(target.name.text(), value_of).has_value();
            });
    }
}

void add_to_account(plan::Ledger& apart, plan::Ledger& ledger) {
    ledger.padding += apart.padding;
    append_all(ledger.ignored, std::move(apart.ignored));
}

void put_in_place(plan::Binding trained, plan::Binding& base) {
    for (plan::Target& target : trained.targets) {
        base.ledger.count(target);
        const auto at = std::ranges::lower_bound(base.targets, target.name.text(), natural_less,
                                                 plan::full_name);
        const auto index = as_size(at - base.targets.begin());
        if (at != base.targets.end() && at->name == target.name) {
            base.ledger.leave_out(*at, "trained as a whole by the adapter");
            std::erase_if(base.same, [&](const auto& pair) { return pair.target == index; });
            *at = std::move(target);
            continue;
        }
        for (plan::SamePair& pair : base.same) {
            pair.target += pair.target >= index ? 1 : 0;
        }
        base.targets.insert(at, std::move(target));
    }
    add_to_account(trained.ledger, base.ledger);
    base.logicals.merge(trained.logicals);
}

void join_tied_rows(const HeldModel& model, Catalogue& adapter) {
    const auto rows_of = [&](const std::string& logical) {
        return std::ranges::find_if(adapter.tensors, [&](const catalogue::Tensor& tensor) {
            const adapters::PeftName name = adapters::read_name(tensor.name);
            return name.role == adapters::TensorRole::rows &&
                   is_called(*model.recipe, logical,
                             plan::renamed(*model.recipe, name.module_name + ".weight"));
        });
    };
    for (const models::SameRule& rule : model.recipe->same) {
        const auto copy = rows_of(rule.a);
        const auto kept = rows_of(rule.b);
        if (model.symbols->holds(rule.condition) && copy != adapter.tensors.end() &&
            kept != adapter.tensors.end() &&
            !adapters::has_own_tokens(model.files.adapter_config,
                                      adapters::read_name(copy->name).module_name,
                                      adapters::read_name(kept->name).module_name)) {
            adapters::join_copy(*kept, std::move(*copy));
            adapter.tensors.erase(copy);
        }
    }
}

std::optional<Index> grown_rows(const models::Config& config, const Catalogue& adapter) {
    const auto stated = config.integer(kVocabularyField);
    for (const catalogue::Tensor& tensor : adapter.tensors) {
        const adapters::PeftName name = adapters::read_name(tensor.name);
        const bool is_saved = name.role != adapters::TensorRole::factor &&
                              (name.module_name.ends_with("embed_tokens.weight") ||
                               name.module_name.ends_with("lm_head.weight"));
        const bool has_rows = is_saved || name.component == "lora_embedding_A";
        const std::size_t dim = is_saved ? 0 : 1;
        if (stated && has_rows && tensor.shape.size() == 2 && tensor.shape[dim] > *stated) {
            return tensor.shape[dim];
        }
    }
    return std::nullopt;
}

void require_base_of(const std::vector<adapters::Module>& modules,
                     const std::set<std::string>& base_names, HeldModel& model) {
    if (!model.has_model || model.framework != nullptr) {
        return;
    }
    std::map<std::string, const plan::Target*> by_source;
    for (const plan::Target& target : model.binding.targets) {
        by_source.emplace(target.source.text(), &target);
    }
    std::set<std::string> held = collect_set(
        base_names, [&](const std::string& name) { return plan::renamed(*model.recipe, name); });
    std::vector<std::string> missing;
    for (const adapters::Module& module : modules) {
        const std::string name = plan::renamed(*model.recipe, module.path + ".weight");
        auto* const at = find_value(by_source, name);
        const bool is_other = module.is_matrix && at != nullptr && (*at)->shape.size() == 2 &&
                              (*at)->shape != std::vector{module.n_out, module.n_in} &&
                              (*at)->shape != std::vector{module.n_in, module.n_out};
        if (is_other) {
            throw Error(ErrorCode::mismatch,
                        (*at)->name.text() + " is " + shape_text((*at)->shape) +
                            ", but the adapter of " + printable(module.path) + " is for " +
                            shape_text(std::vector{module.n_out, module.n_in}),
                        adapters::kTrainedOn);
        }
        const std::string below = name.substr(0, name.rfind('.') + 1);
        const auto inside = held.lower_bound(below);
        const bool is_there = inside != held.end() && inside->starts_with(below);
        if (!is_there && !has_part(module.path, ".experts.") &&
            !is_tied_head(*model.recipe, name) && !is_of_tree(model, module.path + ".weight")) {
            missing.push_back(module.path);
        }
    }
    if (!missing.empty()) {
        model.binding.warnings.push_back(
            {"adapter_settings", "",
             "the adapter calls " + counted(missing.size(), "module") +
                 " otherwise than the base, which has none called " + listed(missing) +
                 ": PEFT leaves their factors out without an error; load the adapter with the "
                 "class that it was trained with, or add it to the weights with --lora fold"});
    }
}

}  // namespace shardweld::app
