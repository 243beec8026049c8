#include "take_training_form.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "models/forms/training_form.hpp"
#include "reshape/destination.hpp"
#include "shardweld/error.hpp"

#include "checkpoint_template.hpp"
#include "shown_names.hpp"
#include "training_form.hpp"
#include "vocabulary.hpp"

namespace shardweld::app {

namespace {

using Facts = std::map<std::string, Index>;
using reshape::Form;

models::TrainingNames names_for(const reshape::Destination& to) {
    models::TrainingNames names;
    names.is_te = !to.has_local_names;
    names.is_torch_dist = to.form == Form::torch_dist;
    names.are_experts_grouped = !to.has_single_experts;
    return names;
}

/// The dialect whose names are written, with those of the family where it has none of its own.
models::Dialect dialect_for(const models::RecipeLibrary& library, const models::Recipe& recipe,
                            const reshape::Destination& to) {
    models::Dialect dialect =
        library.dialect_for(recipe, is_megatron(to) ? "megatron_core" : "hf_module");
    require_shown(library, recipe, dialect);
    return models::own_names(recipe, std::move(dialect));
}

/// Sets the flags under which a module tree and a framework's names are bound to each other: lines
/// for module trees alone do not hold, since no framework has a name for their tensors; lines of
/// towers hold on both sides.
void meet(const models::Dialect& stored, models::Dialect& form) {
    const char* const flag = form.has_own_names ? "tree" : models::kTowers;
    auto* const found = find_value(stored.defaults, flag);
    if (stored.has_own_names != form.has_own_names && found != nullptr) {
        form.defaults.insert_or_assign(flag, *found);
    }
}

/// As many captures as can be are axes, where whole tensors are written and it is not refused.
models::Recipe form_of(const models::Recipe& recipe, const models::Dialect& dialect,
                       const reshape::Destination& to,
                       const std::function<models::Symbols(const models::Recipe&)>& symbols_of) {
    models::TrainingNames names = names_for(to);
    models::Recipe form = models::training_form(recipe, dialect, names);
    if (to.form != Form::torch_dist) {
        return form;
    }
    names.stacks = models::like_layers(form, dialect, symbols_of(form));
    if (to.has_separate_layers) {
        names.stacks.erase("l");
    }
    return models::training_form(recipe, dialect, names);
}

/// Makes one axis, on both sides, of axes that parallel sizes divide.
void regroup(const models::Dialect& form, models::Dialect& stored) {
    for (const models::Dialect* const dialect : {&form, &std::as_const(stored)}) {
        stored.fuse.insert(dialect->regroup.begin(), dialect->regroup.end());
    }
    stored.fuse.insert(form.fuse.begin(), form.fuse.end());
    stored.defaults.insert(form.defaults.begin(), form.defaults.end());
    append_all(stored.facts, form.facts);
    for (const char* const flag : {"tree", models::kTowers}) {
        if (auto* const found = find_value(form.defaults, flag)) {
            stored.defaults.insert_or_assign(flag, *found);
        }
    }
}

/// Error(unsupported) where a tensor that passes as it is stored has another form in the names that
/// are written: Megatron's files have a tower's tensors as the hub does, module trees may not.
void require_one_form(const std::string& name, const models::Recipe& family, bool is_tree,
                      bool is_of_tree) {
    const auto named = [&](const models::Line& line) { return line.name.match(name).has_value(); };
    // A line of the hub's alone is the module tree's, too.
    const auto has_both = [&](const models::Line& line) {
        return named(line) && contains(family.module, line.logical, &models::Line::logical);
    };
    const bool is_other = is_tree ? !is_of_tree && std::ranges::any_of(family.hub, has_both)
                                  : std::ranges::any_of(family.module, named) &&
                                        std::ranges::none_of(family.hub, named);
    if (is_other) {
        throw Error(ErrorCode::unsupported,
                    printable(name) + " of a " + family.name +
                        " model cannot be written straight from this checkpoint: Megatron's files "
                        "and module trees have it in different forms",
                    "merge the checkpoint, then reshape the model");
    }
}

/// Makes a form of the recipe in its names, the symbols of it, and how it calls what passes.
using MakeForm = std::function<std::shared_ptr<const TrainingForm>(
    const std::shared_ptr<const models::Recipe>&, std::shared_ptr<const models::Symbols>,
    TrainingForm::Passing)>;

/// `form`: the recipe in the names of `dialect`, which are written, bound with the parallel sizes
/// in `facts`.
void put_into_form(models::Recipe form, const models::Dialect& dialect, const Facts& facts,
                   const MakeForm& make, HeldModel& prepared) {
    auto symbols = std::make_shared<const models::Symbols>(form, dialect, prepared.config, facts,
                                                           prepared.given);
    models::require_reversible(form, *symbols);
    models::Dialect stored = *prepared.dialect;
    if (stored.has_own_names == dialect.has_own_names) {
        std::ranges::for_each(form.hub, [](models::Line& line) { line.add = 0; });
    }
    const auto recipe = std::make_shared<const models::Recipe>(std::move(form));
    const auto passing = [recipe, dialect, family = prepared.recipe,
                          is_of_tree = stored.has_own_names](const std::string& hub_name) {
        require_one_form(hub_name, *family, dialect.has_own_names, is_of_tree);
        return models::passing_name(*recipe, dialect, hub_name);
    };
    prepared.training = make(recipe, std::move(symbols), passing);
    regroup(dialect, stored);
    if (dialect.has_own_names && !stored.has_own_names) {
        std::ranges::move(models::tower_lines(*prepared.recipe, stored),
                          std::back_inserter(stored.store));
    }
    prepared.recipe = recipe;
    prepared.dialect = std::make_shared<const models::Dialect>(std::move(stored));
}

/// A size that the ranks cannot share, in config.json's words: that of a symbol which has a value
/// for one rank, and none for so many.
std::optional<Error> unshared(const models::Recipe& form, const models::Symbols& one,
                              const models::Symbols& all, Index ranks) {
    const auto value_of = [](const models::Symbols& symbols, const std::string& name) {
        try {
            return symbols.try_value(name);
        } catch (const Error&) {
            return std::optional<Index>();
        }
    };
    for (const auto& [name, definition] : form.symbols) {
        if (!value_of(one, name) || value_of(all, name)) {
            continue;
        }
        for (const std::string& field : one.fields_of(name).stated) {
            const auto number = one.number_in(field);
            if (number && *number % ranks != 0) {
                return Error(ErrorCode::mismatch,
                             "config.json has " + field + " " + std::to_string(*number) +
                                 ", which tp=" + std::to_string(ranks) + " does not divide",
                             "give a tp that divides it");
            }
        }
    }
    return std::nullopt;
}

void take_form_of_template(const models::RecipeLibrary& library,
                           const std::function<void(Facts&)>& add_known, HeldModel& prepared) {
    const Checkpoint& like = *prepared.choice.like;
    const models::Recipe& recipe = *prepared.recipe;
    require_template(like);
    const models::Dialect* const known = library.find_dialect(like.catalogue.dialect);
    if (known == nullptr || !library.can_meet(recipe, *known)) {
        throw Error(ErrorCode::unsupported,
                    "the family " + recipe.name + " has no names as those of the template " +
                        printable(like.root.string()),
                    "give another template, or a recipe that uses " + like.catalogue.dialect);
    }
    models::Dialect dialect = known->has_own_names ? models::own_names(recipe, *known) : *known;
    meet(*prepared.dialect, dialect);
    Facts facts = known_facts(like.catalogue, dialect);
    add_known(facts);
    const models::Symbols symbols(recipe, dialect, prepared.config, facts, prepared.given);
    const auto form = std::make_shared<const TemplateForm>(
        prepared.choice.like, plan::Model{&recipe, &dialect, &symbols});
    models::TrainingNames names;
    names.is_torch_dist = like.catalogue.shards.empty();
    names.lines = form->lines();
    const MakeForm make = [&](const auto& written, auto written_symbols, const auto&) {
        // Tensors that pass have the hub's names in the template by now.
        return std::make_shared<const TrainingForm>(
            form, written, std::move(written_symbols),
            [](const std::string& hub_name) { return hub_name; });
    };
    put_into_form(models::training_form(recipe, dialect, names), dialect, facts, make, prepared);
}

}  // namespace

void take_training_form(const std::string& text, const models::RecipeLibrary& library,
                        std::optional<Index> labels, std::optional<Index> padded_vocab,
                        HeldModel& prepared) {
    const reshape::Destination to = reshape::parse_destination(text);
    const auto add_known = [&](Facts& facts) {
        if (labels) {
            facts.emplace("labels", *labels);
        }
        auto* const tp = find_value(facts, "tp");
        if (padded_vocab && tp != nullptr && *padded_vocab % *tp == 0) {
            facts.emplace("make_vocab_size_divisible_by", *padded_vocab / *tp);
        }
    };
    if (to.form == Form::like) {
        return take_form_of_template(library, add_known, prepared);
    }
    models::Dialect dialect = dialect_for(library, *prepared.recipe, to);
    meet(*prepared.dialect, dialect);
    Facts facts = reshape::facts_of(to);
    add_known(facts);
    const auto symbols_of = [&](const models::Recipe& form) {
        return models::Symbols(form, dialect, prepared.config, facts, prepared.given);
    };
    const models::Recipe form = form_of(*prepared.recipe, dialect, to, symbols_of);
    const MakeForm make = [&](const auto&, auto symbols, auto passing) {
        return std::make_shared<const TrainingForm>(to, std::move(symbols), std::move(passing));
    };
    try {
        put_into_form(form, dialect, facts, make, prepared);
    } catch (const Error& error) {
        const models::Symbols one(form, dialect, prepared.config, reshape::facts_of({}),
                                  prepared.given);
        const auto told = to.sizes.tp > 1 && error.code() == ErrorCode::mismatch
                              ? unshared(form, one, symbols_of(form), to.sizes.tp)
                              : std::nullopt;
        if (told) {
            throw Error(*told);
        }
        throw;
    }
}

}  // namespace shardweld::app
