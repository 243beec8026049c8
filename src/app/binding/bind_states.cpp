#include "bind_states.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/family/training_form.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/scalar_value.hpp"
#include "models/pattern.hpp"
#include "models/recipe.hpp"
#include "shardweld/error.hpp"

#include "bind_options.hpp"
#include "optimizer_text.hpp"
#include "taken_states.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;
using catalogue::kMaster;
using catalogue::State;
using formats::kWeightsOnly;
using plan::Target;

/// One state as a checkpoint of its own.
Catalogue checkpoint_of(State state, const Catalogue& whole) {
    Catalogue one;
    one.format = whole.format;
    one.dialect = whole.dialect;
    one.files = whole.files;
    one.claims = whole.claims;
    one.tensors = std::move(state.tensors);
    one.shards = std::move(state.shards);
    one.facts = std::move(state.facts);
    one.facts.insert(whole.facts.begin(), whole.facts.end());
    return one;
}

void require_fp32(const Target& target, std::string_view state) {
    if (target.stored != DType::f32) {
        throw Error(ErrorCode::unsupported,
                    std::string(state) + " of " + printable(target.name.text()) + " is " +
                        torch_name(target.stored) + ", and only fp32 states are carried over",
                    kWeightsOnly);
    }
}

/// What models of transformers hold as a buffer, and ERNIE as a parameter without gradients.
bool is_untrained(const models::Line& line) {
    constexpr std::array<std::string_view, 4> kEnds = {".router_fix", ".router_fixes",
                                                       ".router_table", ".layer_scalar"};
    return std::ranges::any_of(kEnds,
                               [&](std::string_view end) { return line.logical.ends_with(end); });
}

/// Binds states one after the other.
class StateBinder {
  public:
    StateBinder(HeldModel& model, const Catalogue& whole)
        : model_(model), whole_(whole), is_own_(!has_masters(whole)) {
        for (const Target& target : model.binding.targets) {
            weights_ = is_float(target.dtype) ? target.dtype : weights_;
        }
        note_untrained();
    }

    void bind(State state) {
        const std::string name = state.name;
        Catalogue checkpoint = checkpoint_of(std::move(state), whole_);
        if (name == kMaster) {
            masters_ = bound_to(checkpoint, bind_options_of(model_));
            if (is_in_weights()) {
                take_as_weights();
                require_same_parameters(name, masters_.lacking);
                return;
            }
            prove();
        }
        plan::Binding binding = in_its_place(name, std::move(checkpoint));
        // A tied head has no states of its own, though module trees have it under a second name.
        std::erase_if(binding.targets, [](const Target& target) { return target.is_second_name; });
        const bool is_first = parameters_.empty();
        for (Target& target : binding.targets) {
            if (is_first) {
                parameters_.push_back({target.name, target.shape.size(), target.source});
            }
            place_state(name, target);
        }
        require_same_parameters(name, binding.lacking);
        if (name != kMaster || !is_own_) {
            model_.binding.ledger.add(binding.ledger);
        }
        append_all(model_.binding.targets, std::move(binding.targets));
    }

    /// The parameters of the first state that is bound in its place, by the targets' names.
    [[nodiscard]] const std::vector<reshape::Parameter>& parameters() const { return parameters_; }
    /// The type of the weights beside the states.
    [[nodiscard]] DType weights() const { return weights_; }
    /// Those among lacking() that should have some: no buffers, nor weights that are known to be
    /// frozen.
    [[nodiscard]] std::vector<std::string> missing() const {
        std::vector<std::string> names = lacking();
        std::erase_if(names, [&](const std::string& name) {
            return untrained_.contains(name) || buffers_.contains(digits_hidden(name));
        });
        return names;
    }
    /// Weights of which there are no states.
    [[nodiscard]] std::vector<std::string> lacking() const {
        std::vector<std::string> names;
        std::ranges::set_difference(lacking_.value_or(std::vector<std::string>()),
                                    model_.binding.lacking, std::back_inserter(names));
        return names;
    }

  private:
    /// What nothing trains: by the recipe, integers, and where groups name their members what none
    /// of them has.
    void note_untrained() {
        for (const models::Line& line : model_.recipe->hub) {
            if (is_untrained(line)) {
                buffers_.insert(models::digits_hidden(line.name));
            }
        }
        std::set<std::string_view> members;
        for (const ParameterGroup& group : whole_.optimizer.groups) {
            members.insert(group.parameters.begin(), group.parameters.end());
        }
        const auto note = [&](const std::string& name, DType dtype) {
            if (!is_float(dtype) || (!members.empty() && !members.contains(name))) {
                untrained_.insert(name);
            }
        };
        for (const catalogue::Tensor& tensor : whole_.tensors) {
            note(tensor.name, tensor.dtype);
        }
        for (const catalogue::Shard& shard : whole_.shards) {
            note(shard.name.text(), shard.dtype);
        }
    }

    /// The state's tensors where they are written: a model's directory has them whole, as masters
    /// are bound already, a training checkpoint in pieces of their own.
    [[nodiscard]] plan::Binding in_its_place(const std::string& state, Catalogue checkpoint) {
        if (state == kMaster && model_.training == nullptr) {
            return std::exchange(masters_, {});
        }
        plan::BindOptions bind_options = bind_options_of(model_);
        if (model_.training != nullptr) {
            bind_options.pieces = model_.training->pieces(state);
        }
        return bound_to(std::move(checkpoint), std::move(bind_options));
    }

    /// The state's tensors, as `bind_options` say.
    [[nodiscard]] plan::Binding bound_to(Catalogue checkpoint,
                                         plan::BindOptions bind_options) const {
        bind_options.may_lack = true;
        bind_options.keeps_padding = true;
        bind_options.has_logical_patches = false;
        bind_options.dtype.reset();
        const models::Symbols symbols = model_.symbols_of(checkpoint);
        const Bytes stored = catalogue::stored_bytes(checkpoint);
        plan::Model model = model_.model();
        model.symbols = &symbols;
        plan::Binding binding = plan::bind(std::move(checkpoint), model, bind_options);
        binding.ledger.stored += stored;
        binding.ledger.require_closed();
        return binding;
    }

    [[nodiscard]] bool is_in_weights() const {
        return model_.training != nullptr && model_.training->has_masters_as_weights();
    }

    /// Calls visit(weight, master) for each weight that has one.
    template <typename Visit>
    void each_master(const Visit& visit) {
        std::map<std::string, Target*> by_name;
        for (Target& target : masters_.targets) {
            by_name.emplace(target.name, &target);
        }
        for (Target& weight : model_.binding.targets) {
            auto* const found = find_value(by_name, weight.name);
            if (found != nullptr) {
                require_fp32(**found, kMaster);
                visit(weight, **found);
            }
        }
    }

    /// Every weight gets its master as a replica.
    void prove() {
        if (is_own_) {
            return;
        }
        each_master([](Target& weight, const Target& master) {
            if (weight.is_copy || weight.mix || weight.encode) {
                return;
            }
            for (plan::Operand operand : master.operands) {
                operand.own_type = DType::f32;
                weight.replicas.push_back(std::move(operand));
            }
        });
    }

    /// The masters are written under the weights' names, and what is stored of the weights becomes
    /// a replica.
    void take_as_weights() {
        each_master([&](Target& weight, Target& master) {
            if (!is_own_) {
                std::swap(weight.operands, master.operands);
                weight.replicas.append(master.operands);
                weight.replicas.change_each(
                    [&](plan::Operand& replica) { replica.own_type = weight.stored; });
            }
            weight.stored = DType::f32;
            weight.dtype = DType::f32;
            weight.source = {};
        });
        if (!is_own_) {
            model_.binding.ledger.add(masters_.ledger);
        }
    }

    void place_state(const std::string& state, Target& target) const {
        require_fp32(target, state);
        target.dtype = DType::f32;
        target.state = state;
        target.is_kept = true;
        target.source = {};
        if (state != kMaster) {
            target.add = 0;  // a constant has no moments
        }
        if (model_.training == nullptr) {
            target.file = "optimizer/" + state + ".safetensors";
        }
    }

    void require_same_parameters(const std::string& state,
                                 const std::vector<std::string>& lacking) {
        if (!lacking_ || is_own_) {
            lacking_ = lacking;
            return;
        }
        std::vector<std::string> odd;
        std::ranges::set_symmetric_difference(*lacking_, lacking, std::back_inserter(odd));
        if (!odd.empty()) {
            throw Error(ErrorCode::mismatch,
                        "the optimizer has not all states of " + printable(odd.front()) + ": " +
                            state + " and the others are of different parameters",
                        formats::kOneSaveOrWeights);
        }
    }

    HeldModel& model_;
    const Catalogue& whole_;
    bool is_own_;            ///< the weights are their own masters
    plan::Binding masters_;  ///< bound as the weights are
    std::vector<reshape::Parameter> parameters_;
    DType weights_ = DType::f32;
    std::optional<std::vector<std::string>> lacking_;  ///< weights without states, sorted
    std::set<std::string> buffers_;                    ///< names with their numbers hidden
    std::set<std::string> untrained_;                  ///< names in the save
};

/// The parameters of a save, under its own names: those with states.
std::vector<reshape::Parameter> parameters_of(const Catalogue& whole) {
    std::vector<reshape::Parameter> parameters;
    const auto add = [&](const std::vector<catalogue::Tensor>& tensors,
                         const std::vector<catalogue::Shard>& shards) {
        for (const catalogue::Tensor& tensor : tensors) {
            parameters.push_back({tensor.name, tensor.shape.size()});
        }
        for (const catalogue::Shard& shard : shards) {
            parameters.push_back({shard.name.text(), shard.shape.size()});
        }
    };
    if (whole.optimizer.is_empty()) {
        add(whole.tensors, whole.shards);
    } else {
        const State& state = whole.optimizer.states.front();
        add(state.tensors, state.shards);
    }
    return parameters;
}

/// Weights that no optimizer has trained are at step 0 of iteration 0.
reshape::OptimizerToWrite to_write(const std::string& family,
                                   std::vector<reshape::Parameter> parameters,
                                   const Catalogue& whole) {
    const catalogue::Optimizer& optimizer = whole.optimizer;
    reshape::OptimizerToWrite out;
    out.parameters = std::move(parameters);
    out.family = family;
    out.step = optimizer.step.value_or(0);
    auto* const iteration = find_value(whole.facts, "iteration");
    out.iteration = iteration != nullptr ? *iteration : static_cast<Index>(out.step);
    out.groups = optimizer.groups;
    out.scheduler = optimizer.scheduler;
    return out;
}

/// The optimizer as optimizer.json tells it: its groups have the names that are written, where
/// that is known.
catalogue::Optimizer as_written(const reshape::OptimizerToWrite& to_write,
                                const std::vector<reshape::Parameter>& written,
                                catalogue::Optimizer optimizer) {
    std::set<std::string_view> named;
    for (const ParameterGroup& group : to_write.groups) {
        named.insert(group.parameters.begin(), group.parameters.end());
    }
    const bool are_known = std::ranges::all_of(written, [&](const reshape::Parameter& one) {
        return named.contains(one.name) || named.contains(one.source);
    });
    std::string why;
    if (are_known && !written.empty()) {
        if (auto groups = reshape::groups_with(to_write, written, why)) {
            optimizer.groups = std::move(*groups);
        }
    }
    return optimizer;
}

/// Steps that stand elsewhere in the save, and are not the optimizer's.
std::vector<std::string> other_steps(const Catalogue& whole) {
    std::vector<std::string> others;
    const auto compare = [&](const std::string& what, double step) {
        if (step != *whole.optimizer.step) {
            others.push_back(what + " is " + formats::real_text(step));
        }
    };
    const auto add_fact = [&](const char* fact, const char* what) {
        if (auto* const found = find_value(whole.facts, fact)) {
            compare(what, static_cast<double>(*found));
        }
    };
    add_fact("iteration", "the iteration");
    add_fact(formats::kStepsDone, "the number of steps that the engine counted");
    for (const auto& [fact, step] : whole.facts) {
        if (fact.starts_with(formats::kStepBesides)) {
            compare(fact, static_cast<double>(step));
        }
    }
    // torch's schedulers count from 0, DeepSpeed's from -1.
    for (const auto& [name, ahead] :
         {std::pair("last_epoch", 0), std::pair("last_batch_iteration", 1)}) {
        auto* const stated = find_value(whole.optimizer.scheduler, name);
        if (stated == nullptr) {
            continue;
        }
        const auto value = nlohmann::json::parse(*stated, nullptr, false);
        if (!value.is_number()) {
            throw Error(ErrorCode::corrupt,
                        std::string(name) + " of the scheduler is " + printable(*stated) +
                            ", which is no number",
                        kWeightsOnly);
        }
        compare(std::string("the scheduler's ") + name, value.get<double>() + ahead);
    }
    return others;
}

void warn_of_other_steps(const Catalogue& whole, HeldModel& model) {
    if (!whole.optimizer.step || whole.optimizer.is_empty()) {
        return;
    }
    if (const auto others = other_steps(whole); !others.empty()) {
        model.binding.warnings.push_back(
            {"optimizer_step", "",
             "the optimizer is at step " + formats::real_text(*whole.optimizer.step) + ", but " +
                 joined(others, ", ") +
                 ": the run counts its updates otherwise, or these are files of several saves"});
    }
}

void warn_of_lost_groups(const std::vector<reshape::Parameter>& written, HeldModel& model) {
    const reshape::OptimizerToWrite& optimizer = *model.optimizer;
    std::string lost = model.training == nullptr ? std::string()
                       : optimizer.groups.empty()
                           ? "the save tells no rate, betas, epsilon or decay: the groups that are "
                             "written have none, and the run has to give its own"
                           : model.training->lost(optimizer, written);
    if (!lost.empty()) {
        model.binding.warnings.push_back({"optimizer_groups", "", std::move(lost)});
    }
}

/// What is carried over, and what is not.
void warn_of_states(const catalogue::Optimizer& optimizer, const StateBinder& binder,
                    bool has_masters, HeldModel& model) {
    std::vector<std::string>& told = model.told;
    told.push_back(
        "the optimizer is carried over" +
        (optimizer.step ? ", at step " + std::to_string(static_cast<Index>(*optimizer.step))
                        : std::string()) +
        ", with " + counted(optimizer.groups.size(), "parameter group") +
        (optimizer.scheduler.empty() ? " and without a scheduler" : " and its scheduler"));
    told.emplace_back(
        "random states are not: they belong to the ranks that saved them. Nor are states of rows "
        "that fill up a vocabulary, where their number changes: those are zeros");
    if (const auto names = binder.missing(); !names.empty()) {
        model.binding.warnings.push_back(
            {"states_missing", names.front(),
             counted(names.size(), "weight") +
                 " without states of the optimizer, which frozen ones have none of: " +
                 listed(names)});
    }
    if (!has_masters && optimizer.is_ordered) {
        model.binding.warnings.push_back(
            {"optimizer_unproved", "",
             "the weights are their own masters, so nothing but the order of parameters and their "
             "shapes says which moments are whose"});
    }
}

}  // namespace

void bind_states(HeldModel& model, const Job& job, Catalogue catalogue) {
    const bool has_own_masters = has_masters(catalogue);
    StateBinder binder(model, catalogue);
    // Weights that are their own masters need no optimizer.
    const bool is_enough = job.inputs.front().state == formats::TakenState::master &&
                           std::ranges::all_of(model.binding.targets, [](const Target& target) {
                               return !is_float(target.dtype) || target.stored == DType::f32;
                           });
    if (catalogue.optimizer.is_empty() && !is_enough) {
        refuse_stateless(job);
    }
    formats::require_claims(catalogue.optimizer);
    std::vector<reshape::Parameter> parameters = parameters_of(catalogue);
    warn_of_other_steps(catalogue, model);
    for (State& state : take_states(job, catalogue)) {
        binder.bind(std::move(state));
    }
    model.doubt = catalogue.optimizer.doubt;
    model.is_ordered = catalogue.optimizer.is_ordered;
    warn_of_states(catalogue.optimizer, binder, has_own_masters, model);
    model.optimizer = to_write(model.recipe->name, std::move(parameters), catalogue);
    const auto written = model.training == nullptr
                             ? binder.parameters()
                             : model.training->parameters(model.binding.targets);
    warn_of_lost_groups(written, model);
    model.optimizer_text =
        optimizer_text(as_written(*model.optimizer, written, catalogue.optimizer), binder.weights(),
                       binder.lacking());
    if (model.training != nullptr) {
        std::ranges::move(model.training->steps(model.optimizer->step, model.binding.targets),
                          std::back_inserter(model.binding.targets));
    }
}

}  // namespace shardweld::app
