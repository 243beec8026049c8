#include "training_form.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "models/training_form.hpp"
#include "outputs/training.hpp"
#include "reshape/arrange.hpp"
#include "reshape/destination.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using reshape::Form;

bool is_megatron(const reshape::Destination& to) {
    return to.form == Form::torch_dist || to.form == Form::legacy;
}

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
    const models::Dialect& dialect =
        *library.find_dialect(is_megatron(to) ? "megatron_core" : "hf_module");
    if (!library.can_meet(recipe, dialect)) {
        throw Error(ErrorCode::unsupported,
                    "the family " + recipe.name + " has no names in Megatron's checkpoints",
                    "write --to fsdp or --to dcp, or give a recipe that uses megatron_core");
    }
    return dialect.has_own_names ? models::own_names(recipe, dialect) : dialect;
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

/// What parallel sizes divide is one axis on both sides.
void regroup(const models::Dialect& form, models::Dialect& stored) {
    for (const models::Dialect* const dialect : {&form, &std::as_const(stored)}) {
        stored.fuse.insert(dialect->regroup.begin(), dialect->regroup.end());
    }
    stored.fuse.insert(form.fuse.begin(), form.fuse.end());
    stored.defaults.insert(form.defaults.begin(), form.defaults.end());
    stored.facts.insert(stored.facts.end(), form.facts.begin(), form.facts.end());
}

}  // namespace

struct TrainingForm::State {
    reshape::Arrangement arrangement;
    std::map<std::string, std::pair<plan::TensorPiece, std::vector<Index>>> pieces = {};
};

TrainingForm::TrainingForm(const reshape::Destination& to,
                           std::shared_ptr<const models::Symbols> written,
                           std::function<std::string(const std::string&)> passing)
    : written_(std::move(written)),
      passing_(std::move(passing)),
      state_(std::make_shared<State>(reshape::arrangement_of(to, *written_))) {}

plan::PiecesOf TrainingForm::pieces() const {
    return [state = state_](const models::Line& line, const models::Captures& captures,
                            const std::vector<Index>& shape) {
        auto pieces = state->arrangement.pieces(line, captures, shape);
        for (const plan::TensorPiece& piece : pieces) {
            state->pieces.insert_or_assign(plan::piece_name(piece), std::pair(piece, shape));
        }
        return pieces;
    };
}

std::function<std::string(const std::string&)> TrainingForm::passing() const {
    return passing_;
}

std::shared_ptr<const outputs::Format> TrainingForm::format(
    const std::vector<plan::Target>& targets) const {
    std::set<std::string_view> names;
    for (const plan::Target& target : targets) {
        names.insert(target.name);
    }
    std::vector<reshape::PlacedTensor> placed;
    for (const auto& [name, piece] : state_->pieces) {
        if (names.contains(name)) {
            placed.push_back({piece.second, {piece.first}});
        }
    }
    return outputs::training_format_of(state_->arrangement.save(placed));
}

InTrainingForm in_training_form(const std::string& text, const ModelToTrain& model) {
    const reshape::Destination to = reshape::parse_destination(text);
    const models::Dialect dialect = dialect_for(model.library, model.recipe, to);
    auto facts = reshape::facts_of(to);
    if (model.labels) {
        facts.emplace("labels", *model.labels);
    }
    const auto symbols_of = [&](const models::Recipe& form) {
        return models::Symbols(form, dialect, model.config, facts, model.given);
    };
    models::Recipe form = form_of(model.recipe, dialect, to, symbols_of);
    const auto written = std::make_shared<const models::Symbols>(symbols_of(form));
    models::require_reversible(form, *written);
    models::Dialect stored = model.stored;
    if (stored.has_own_names == dialect.has_own_names) {
        std::ranges::for_each(form.hub, [](models::Line& line) { line.add = 0; });
    }
    regroup(dialect, stored);
    const auto recipe = std::make_shared<const models::Recipe>(std::move(form));
    const auto passing = [recipe, dialect](const std::string& hub_name) {
        return models::passing_name(*recipe, dialect, hub_name);
    };
    return {recipe, std::make_shared<const models::Dialect>(std::move(stored)),
            std::make_shared<const TrainingForm>(to, written, passing)};
}

}  // namespace shardweld::app
