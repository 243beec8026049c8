#include "optimizer_state.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "layout/box.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

#include "bucket_space.hpp"
#include "model_names.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::string_view kOfOptimizer = "optimizer.";
constexpr std::string_view kOfState = "optimizer.state.";

/// megatron-core 0.16.1 and 0.19.2 megatron/core/optimizer/distrib_optimizer.py leave out the
/// padding between buckets where they put the parts of ranks together.
constexpr const char* kShifted =
    "megatron-core up to 0.19 saves states of this form shifted where a buffer has several buckets "
    "(tied embeddings on several stages, or overlapped gradients), all three states alike, so that "
    "none of them can be used";

/// What a state is called in keys, and which it is.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kStates = {
    {{"param", kMaster},
     {"fp32_param", kMaster},  // up to 0.13, and without a distributed optimizer
     {"exp_avg", kMoment},
     {"exp_avg_sq", kSquaredMoment}}};

/// The state that Megatron calls so; "": none.
std::string_view state_named(std::string_view name) {
    auto* const known = find_item(kStates, name, [](const auto& one) { return one.first; });
    return known == nullptr ? std::string_view() : known->second;
}

/// Behind "chained_3.".
std::string_view without_chain(std::string_view key) {
    constexpr std::string_view kChainOf = "chained_";
    const std::size_t dot = key.find('.');
    const bool is_chained = key.starts_with(kChainOf) && dot != std::string_view::npos &&
                            parse_index(key.substr(kChainOf.size(), dot - kChainOf.size()));
    return is_chained ? key.substr(dot + 1) : key;
}

/// Calls `visit` with each optimizer that a common state tells of, one or several by their numbers,
/// and what it is in.
template <typename Visit>
void each_optimizer(const PickleValue& state, const Visit& visit) {
    const auto look = [&](const PickleValue& one) {
        const PickleValue* const inner = one.find("optimizer");
        if (inner != nullptr && inner->is_mapping()) {
            visit(*inner, one);
        }
        return inner != nullptr;
    };
    std::ranges::for_each(state.elements(), [&](const PickleValue* one) { look(*one); });
    if (!state.is_mapping() || look(state)) {
        return;
    }
    for (const auto& [key, value] : state.pairs()) {
        if (key.kind == PickleKind::integer) {
            look(value);
        }
    }
}

/// The steps that an optimizer states: of its groups; without a distributed optimizer one of all
/// parameters, among their states; and up to 0.13 one of each.
void add_steps(const PickleValue& optimizer, const PickleValue& whole, const ScalarReader& scalars,
               const std::vector<ParameterGroup>& groups, StepClaims& steps) {
    steps.add(groups, "the optimizer's groups");
    const PickleValue* const state = optimizer.find("state");
    if (state != nullptr) {
        steps.add(state->find("common_step"), scalars, "common_step");
    }
    if (const PickleValue* const each = whole.find("param_state")) {
        for (const auto& [key, one] : each->pairs()) {
            steps.add(one.find("step"), scalars, "param_state " + member_text(key));
        }
    }
}

/// How the states are kept, of one optimizer or the first of several; "": not told.
std::string form_of(const PickleValue& state) {
    constexpr std::string_view kForm = "param_state_sharding_type";
    if (state.pair_count() == 0) {
        return "";
    }
    const PickleValue* form = state.find(kForm);
    if (form == nullptr && state.key(0).kind == PickleKind::integer) {
        form = state.value(0).find(kForm);
    }
    return form == nullptr ? "" : std::string(form->text());
}

/// How many parts the ranks cut each axis of a parameter into: the leading numbers of a flattened
/// state's shape.
std::vector<Index> fragments_of(const Tensor& tensor, const Tensor& parameter) {
    const std::size_t rank = parameter.shape.size();
    std::vector<Index> fragments(tensor.shape.begin(), tensor.shape.end() - 1);
    Index elements = tensor.shape.back();
    bool fits = fragments.size() == rank;
    for (std::size_t k = 0; fits && k < rank; ++k) {
        fits = fragments[k] > 0 && parameter.shape[k] % fragments[k] == 0;
        elements *= fits ? fragments[k] : 1;
    }
    if (!fits || elements != volume_of(parameter.shape, parameter.name)) {
        throw Error(ErrorCode::unsupported,
                    "the optimizer's state of " + printable(parameter.name) + " has shape " +
                        shape_text(tensor.shape) + ", which is no flattened form of " +
                        shape_text(parameter.shape),
                    kWeightsOnly);
    }
    return fragments;
}

/// A range of one fragment, which is stored flat, as boxes of the parameter.
void unflatten(const Piece& piece, const std::vector<Index>& fragments,
               const std::vector<Index>& shape, std::vector<Piece>& out) {
    const auto& axes = piece.patch.axes;
    layout::Box box;
    for (const std::size_t k : indices(fragments)) {
        const Index extent = shape[k] / fragments[k];
        if (axes[k].extent != 1) {
            throw Error(ErrorCode::unsupported,
                        "a flattened state of the optimizer has a chunk of several fragments",
                        kWeightsOnly);
        }
        box.push_back({axes[k].lo * extent, extent});
    }
    const layout::Axis& range = axes.back();
    for (layout::Patch& patch :
         layout::flat(box, range.lo, range.range().end(), piece.patch.offset)) {
        Piece part = piece;
        part.patch = std::move(patch);
        out.push_back(std::move(part));
    }
}

void unflatten(Tensor& tensor, const Tensor& parameter) {
    const std::vector<Index> fragments = fragments_of(tensor, parameter);
    std::vector<Piece> pieces;
    for (const Piece& piece : tensor.pieces) {
        unflatten(piece, fragments, parameter.shape, pieces);
    }
    tensor.pieces = std::move(pieces);
    tensor.shape = parameter.shape;
}

}  // namespace

std::string_view known_state(std::string_view name, std::string_view key, TakenState taken) {
    const std::string_view known = state_named(name);
    if (known.empty() && taken == TakenState::all) {
        throw Error(ErrorCode::unsupported,
                    "the optimizer keeps " + printable(name) + " (" + printable(key) +
                        "), which is none of Adam's states: param, exp_avg, exp_avg_sq",
                    kMastersOrWeights);
    }
    return known;
}

namespace {

/// Whether a state is asked for, by Megatron's name.
bool is_asked_for(std::string_view name, TakenState taken) {
    const std::string_view known = state_named(name);
    return !known.empty() && is_taken(known, taken);
}

}  // namespace

void require_no_state(std::string_view name, const PickleValue& value, TakenState taken,
                      const std::string& owner) {
    if (is_asked_for(name, taken)) {
        refuse_state(std::string(name) + " of " + owner, value);
    }
}

void require_no_state(std::string_view key, TakenState taken) {
    const auto bucket = bucket_key(key);
    const std::string_view rest = without_chain(key);
    const bool is_named = !bucket && rest.starts_with(kOfState);
    const std::string_view state =
        bucket     ? bucket->state
        : is_named ? rest.substr(kOfState.size(), rest.find('.', kOfState.size()) - kOfState.size())
                   : std::string_view();
    if (is_asked_for(state, taken)) {
        throw Error(
            ErrorCode::unsupported,
            "the optimizer keeps " + printable(key) + " as an object, where a tensor is expected",
            kMastersOrWeights);
    }
}

State* state_taken(std::string_view name, TakenState taken, Optimizer& out) {
    return is_taken(name, taken) ? &state_called(name, out) : nullptr;
}

std::optional<StateKey> state_key(std::string_view key, TakenState taken) {
    if (const auto bucket = bucket_key(key)) {
        return StateKey{known_state(bucket->state, key, taken),
                        key.substr(0, key.size() - bucket->state.size() - 1)};
    }
    std::string_view rest = without_chain(key);
    if (!rest.starts_with(kOfOptimizer)) {
        return std::nullopt;
    }
    if (!rest.starts_with(kOfState) || rest.find('.', kOfState.size()) == std::string_view::npos) {
        if (taken != TakenState::all) {
            return std::nullopt;
        }
        throw Error(ErrorCode::unsupported,
                    "the optimizer keeps " + printable(key) + ", which is no state of a parameter",
                    kWeightsOnly);
    }
    rest.remove_prefix(kOfState.size());
    const std::size_t dot = rest.find('.');
    if (taken == TakenState::all && !state_named(rest.substr(rest.rfind('.') + 1)).empty() &&
        state_named(rest.substr(0, dot)).empty()) {
        throw Error(ErrorCode::unsupported,
                    "the optimizer's states have the names of Megatron's fsdp_dtensor (" +
                        printable(key) + "), which are not read",
                    "save it with --ckpt-format torch_dist, or " + std::string(kWeightsOnly));
    }
    return StateKey{known_state(rest.substr(0, dot), key, taken), rest.substr(dot + 1)};
}

bool take_state(const StateKey& key, Tensor tensor, TakenState taken, Optimizer& out) {
    State* const state = state_taken(key.state, taken, out);
    if (state != nullptr) {
        tensor.stored_as = std::exchange(tensor.name, model_name(key.parameter));
        state->tensors.push_back(std::move(tensor));
    }
    return state != nullptr;
}

void add_optimizer(const PickleValue& root, const ScalarReader& scalars, Optimizer& out) {
    StepClaims steps;
    const PickleValue* const state = root.find("optimizer");
    if (state != nullptr) {
        each_optimizer(*state, [&](const PickleValue& optimizer, const PickleValue& whole) {
            auto groups = groups_of(optimizer.find("param_groups"), scalars);
            add_steps(optimizer, whole, scalars, groups, steps);
            append_all(out.groups, std::move(groups));
        });
        out.form = form_of(*state);
        out.doubt = out.form == "fully_reshardable" ? kShifted : "";
    }
    out.step = steps.step() ? steps.step() : out.step;
    // The iteration becomes that of what is written.
    const PickleValue* const iteration = root.find("iteration");
    const auto stated = iteration == nullptr ? std::nullopt : json_text(*iteration, scalars);
    if (iteration != nullptr && (!stated || !whole_number(*stated))) {
        refuse_said("the iteration is " + printable(stated.value_or(in_words(iteration->kind))) +
                    ", which is no whole number from 0 on");
    }
    if (const PickleValue* const scheduler = root.find("opt_param_scheduler")) {
        out.scheduler = settings_of(*scheduler, scalars);
    }
}

void split_flat_states(Catalogue& catalogue) {
    carve_buckets(catalogue);
    for (State& state : catalogue.optimizer.states) {
        for (Tensor& tensor : state.tensors) {
            const auto parameter =
                std::ranges::lower_bound(catalogue.tensors, tensor.name, {}, &Tensor::name);
            const bool is_known =
                parameter != catalogue.tensors.end() && parameter->name == tensor.name;
            if (is_known && parameter->shape != tensor.shape &&
                tensor.shape.size() == parameter->shape.size() + 1) {
                unflatten(tensor, *parameter);
            }
        }
    }
}

}  // namespace shardweld::formats::megatron
