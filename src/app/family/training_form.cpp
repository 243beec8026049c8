#include "training_form.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "catalogue/optimizer.hpp"
#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "models/training_form.hpp"
#include "outputs/training.hpp"
#include "plan/bind/quantise.hpp"
#include "reshape/arrange.hpp"
#include "reshape/destination.hpp"
#include "reshape/placed.hpp"
#include "shardweld/error.hpp"

#include "shown_names.hpp"
#include "vocabulary.hpp"

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
    require_shown(library, recipe, dialect);
    return dialect.has_own_names ? models::own_names(recipe, dialect) : dialect;
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

std::unordered_set<std::string_view> target_names(const std::vector<plan::Target>& targets) {
    const auto names = collect_list<std::string_view>(targets, &plan::Target::name);
    return {names.begin(), names.end()};
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

}  // namespace

struct TrainingForm::State {
    reshape::Arrangement arrangement;
    std::vector<reshape::PlacedTensor> placed = {};  ///< as often as binding asked for it
};

TrainingForm::TrainingForm(const reshape::Destination& to,
                           std::shared_ptr<const models::Symbols> written, Passing passing)
    : written_(std::move(written)),
      passing_(std::move(passing)),
      has_names_for_all_(!is_megatron(to)),
      state_(std::make_shared<State>(State{reshape::arrangement_of(to, *written_)})) {
    pieces_ = noted_pieces("");
}

plan::PiecesOf TrainingForm::noted_pieces(const std::string& state) const {
    return [all = state_, state](const models::Line& line, const models::Captures& captures,
                                 const std::vector<Index>& shape) {
        auto pieces = all->arrangement.pieces(line, captures, shape);
        if (pieces.empty()) {
            return pieces;
        }
        reshape::PlacedTensor placed{shape, {}, state, {}};
        if (pieces.front().stack > 0) {
            placed.whole.insert(placed.whole.begin(), pieces.front().stack);
        }
        if (!state.empty()) {
            placed.weight = pieces.front().path.back();
            for (plan::TensorPiece& piece : pieces) {
                all->arrangement.in_state(state, piece);
            }
        }
        placed.pieces = pieces;
        all->placed.push_back(std::move(placed));
        return pieces;
    };
}

plan::PiecesOf TrainingForm::pieces(const std::string& state) const {
    if (state_ == nullptr || !state_->arrangement.in_state) {
        throw Error(
            ErrorCode::unsupported,
            "states of an optimizer are written to torch_dist, fsdp, dcp, universal and hf, "
            "not to this form",
            "write one of these, or " + std::string(formats::kWeightsOnly));
    }
    return noted_pieces(state);
}

std::vector<plan::Target> TrainingForm::steps(double step,
                                              const std::vector<plan::Target>& states) const {
    const std::unordered_set<std::string_view> names = target_names(states);
    std::vector<plan::Target> targets;
    if (state_ == nullptr || !state_->arrangement.step_beside) {
        return targets;
    }
    const auto value = static_cast<float>(step);
    if (static_cast<double>(value) != step) {
        throw Error(ErrorCode::unsupported,
                    "the optimizer's step is " + std::to_string(static_cast<Index>(step)) +
                        ", and this form has it as fp32, which holds no such number",
                    "write --to torch_dist or hf, or " + std::string(formats::kWeightsOnly));
    }
    std::map<std::string, reshape::PlacedTensor> added;  // by the moment's name
    for (const reshape::PlacedTensor& moments : state_->placed) {
        for (const plan::TensorPiece& moment : moments.pieces) {
            const std::string name = plan::piece_name(moment);
            const auto piece = moments.state == catalogue::kMoment && names.contains(name)
                                   ? state_->arrangement.step_beside(moment)
                                   : std::nullopt;
            if (piece) {
                added[name] = {{}, {*piece}, reshape::kStep, moments.weight};
            }
        }
    }
    for (auto& [name, step_of] : added) {
        targets.push_back(plan::literal_target(plan::piece_name(step_of.pieces.front()), DType::f32,
                                               1, std::as_bytes(std::span(&value, 1))));
        targets.back().shape.clear();
        targets.back().state = reshape::kStep;
        state_->placed.push_back(std::move(step_of));
    }
    return targets;
}

std::vector<reshape::Parameter> TrainingForm::parameters(
    const std::vector<plan::Target>& states) const {
    if (state_ == nullptr) {
        return {};
    }
    const std::unordered_set<std::string_view> names = target_names(states);
    const auto is_state = [&](const plan::TensorPiece& piece) {
        return names.contains(plan::piece_name(piece));
    };
    std::vector<reshape::PlacedTensor> written;
    for (const reshape::PlacedTensor& tensor : state_->placed) {
        if (std::ranges::any_of(tensor.pieces, is_state)) {
            written.push_back({tensor.whole, {}, tensor.state, tensor.weight});
        }
    }
    return reshape::parameters_of(written);
}

std::string TrainingForm::lost(const reshape::OptimizerToWrite& optimizer,
                               const std::vector<reshape::Parameter>& parameters) const {
    return state_ != nullptr && state_->arrangement.lost
               ? state_->arrangement.lost(optimizer, parameters)
               : "";
}

bool TrainingForm::has_masters_as_weights() const {
    return state_ != nullptr && state_->arrangement.has_masters_as_weights;
}

TrainingForm::TrainingForm(std::shared_ptr<const TemplateForm> like,
                           const std::shared_ptr<const models::Recipe>& recipe,
                           std::shared_ptr<const models::Symbols> written, Passing passing)
    : written_(std::move(written)), passing_(std::move(passing)), like_(std::move(like)) {
    pieces_ = [like = like_, recipe, symbols = written_](const models::Line& line,
                                                         const models::Captures& captures,
                                                         const std::vector<Index>& shape) {
        const std::string name = reshape::name_of(line, captures, *symbols);
        return like->pieces(like->has(name) ? name : plan::renamed(*recipe, name), shape);
    };
}

const Checkpoint* TrainingForm::like() const {
    return like_ == nullptr ? nullptr : &like_->checkpoint();
}

plan::PiecesOf TrainingForm::pieces() const {
    return pieces_;
}

TrainingForm::Passing TrainingForm::passing() const {
    return passing_;
}

namespace {

/// Leaves one piece for each target, a copy if that is one: optional tensors that are not stored
/// have none, and of several checkpoints each asked for them.
void bind_pieces(const std::vector<plan::Target>& targets,
                 std::vector<reshape::PlacedTensor>& placed) {
    std::unordered_map<std::string_view, std::uint32_t> named;
    for (std::uint32_t i = 0; i < targets.size(); ++i) {
        named.emplace(targets[i].name, i);
    }
    for (reshape::PlacedTensor& tensor : placed) {
        for (plan::TensorPiece& piece : std::exchange(tensor.pieces, {})) {
            if (const auto target = named.extract(plan::piece_name(piece))) {
                piece.target = target.mapped();
                piece.is_copy = targets[piece.target].is_copy;
                tensor.pieces.push_back(std::move(piece));
            }
        }
    }
    std::erase_if(placed,
                  [](const reshape::PlacedTensor& tensor) { return tensor.pieces.empty(); });
}

}  // namespace

std::shared_ptr<const outputs::OutputFormat> TrainingForm::format(
    plan::Binding& binding, const reshape::OptimizerToWrite* optimizer) const {
    if (like_ != nullptr) {
        return like_->format(binding);
    }
    std::vector<reshape::PlacedTensor> placed = std::exchange(state_->placed, {});
    bind_pieces(binding.targets, placed);
    return outputs::training_format_of(state_->arrangement.save(std::move(placed), optimizer));
}

namespace {

/// The form in which the model is written, bound with the parallel sizes in `facts`.
struct BoundForm {
    std::shared_ptr<const models::Recipe> recipe;
    std::shared_ptr<const models::Symbols> symbols;
    TrainingForm::Passing passing;
};

/// Error(unsupported) where a tensor that passes as it is stored has another form in the names that
/// are written: Megatron's files have a tower's tensors as the hub does, module trees may not.
void require_one_form(const std::string& name, const models::Recipe& family, bool is_tree,
                      bool is_of_tree) {
    const auto named = [&](const models::Line& line) { return line.name.match(name).has_value(); };
    // A line of the hub's alone is the module tree's, too.
    const auto has_both = [&](const models::Line& line) {
        return named(line) &&
               std::ranges::count(family.module, line.logical, &models::Line::logical) > 0;
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

BoundForm written_of(models::Recipe form, const models::Dialect& dialect, const ModelToTrain& model,
                     const std::map<std::string, Index>& facts) {
    BoundForm written;
    written.symbols =
        std::make_shared<const models::Symbols>(form, dialect, model.config, facts, model.given);
    models::require_reversible(form, *written.symbols);
    if (model.stored.has_own_names == dialect.has_own_names) {
        std::ranges::for_each(form.hub, [](models::Line& line) { line.add = 0; });
    }
    const auto recipe = std::make_shared<const models::Recipe>(std::move(form));
    written.recipe = recipe;
    const auto family = std::make_shared<const models::Recipe>(model.recipe);
    const bool is_of_tree = model.stored.has_own_names;
    written.passing = [recipe, dialect, family, is_of_tree](const std::string& hub_name) {
        require_one_form(hub_name, *family, dialect.has_own_names, is_of_tree);
        return models::passing_name(*recipe, dialect, hub_name);
    };
    return written;
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

std::map<std::string, Index> with_labels(std::map<std::string, Index> facts,
                                         const ModelToTrain& model) {
    if (model.labels) {
        facts.emplace("labels", *model.labels);
    }
    if (model.padded_vocab && facts.contains("tp") && *model.padded_vocab % facts.at("tp") == 0) {
        facts.emplace("make_vocab_size_divisible_by", *model.padded_vocab / facts.at("tp"));
    }
    return facts;
}

InTrainingForm result_of(const BoundForm& written, const models::Dialect& dialect,
                         const ModelToTrain& model, std::shared_ptr<const TrainingForm> form) {
    models::Dialect stored = model.stored;
    regroup(dialect, stored);
    if (dialect.has_own_names && !stored.has_own_names) {
        std::ranges::move(models::tower_lines(model.recipe, stored),
                          std::back_inserter(stored.store));
    }
    return {written.recipe, std::make_shared<const models::Dialect>(std::move(stored)),
            std::move(form)};
}

InTrainingForm in_form_of_template(const ModelToTrain& model) {
    const Checkpoint& like = *model.like;
    require_template(like);
    const models::Dialect* const known = model.library.find_dialect(like.catalogue.dialect);
    if (known == nullptr || !model.library.can_meet(model.recipe, *known)) {
        throw Error(ErrorCode::unsupported,
                    "the family " + model.recipe.name + " has no names as those of the template " +
                        printable(like.root.string()),
                    "give another template, or a recipe that uses " + like.catalogue.dialect);
    }
    models::Dialect dialect =
        known->has_own_names ? models::own_names(model.recipe, *known) : *known;
    meet(model.stored, dialect);
    const std::map<std::string, Index> facts =
        with_labels(known_facts(like.catalogue, dialect), model);
    const models::Symbols symbols(model.recipe, dialect, model.config, facts, model.given);
    const auto form = std::make_shared<const TemplateForm>(
        model.like, plan::Model{&model.recipe, &dialect, &symbols});
    models::TrainingNames names;
    names.is_torch_dist = like.catalogue.shards.empty();
    names.lines = form->lines();
    const BoundForm written =
        written_of(models::training_form(model.recipe, dialect, names), dialect, model, facts);
    // Tensors that pass have the hub's names in the template by now.
    const auto passing = [](const std::string& hub_name) { return hub_name; };
    return result_of(
        written, dialect, model,
        std::make_shared<const TrainingForm>(form, written.recipe, written.symbols, passing));
}

}  // namespace

InTrainingForm in_training_form(const std::string& text, const ModelToTrain& model) {
    const reshape::Destination to = reshape::parse_destination(text);
    if (to.form == Form::like) {
        return in_form_of_template(model);
    }
    models::Dialect dialect = dialect_for(model.library, model.recipe, to);
    meet(model.stored, dialect);
    const auto facts = with_labels(reshape::facts_of(to), model);
    const auto symbols_of = [&](const models::Recipe& form) {
        return models::Symbols(form, dialect, model.config, facts, model.given);
    };
    const models::Recipe form = form_of(model.recipe, dialect, to, symbols_of);
    try {
        const BoundForm written = written_of(form, dialect, model, facts);
        return result_of(
            written, dialect, model,
            std::make_shared<const TrainingForm>(to, written.symbols, written.passing));
    } catch (const Error& error) {
        const models::Symbols one(form, dialect, model.config, reshape::facts_of({}), model.given);
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
