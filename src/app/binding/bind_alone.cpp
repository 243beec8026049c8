#include "bind_alone.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/family/model_files.hpp"
#include "app/family/prepare_model.hpp"
#include "app/survey/checkpoint.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "plan/bind/as_stored.hpp"
#include "plan/bind/dequantise.hpp"
#include "plan/bind/hub_names.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

#include "bind_options.hpp"
#include "quantised.hpp"
#include "unread_quantisation.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;
using plan::Binding;
using plan::Target;
using plan::Targets;

std::string shown(const Checkpoint& reference) {
    return "the reference " + printable(reference.given.string());
}

/// A name without what stands before its family's own modules.
std::string_view without_model(std::string_view name) {
    constexpr std::string_view kModel = "model.";
    return name.starts_with(kModel) ? name.substr(kModel.size()) : name;
}

/// What the logical names of MTP layers begin with, whose own names are the decoder's at times.
constexpr std::string_view kOfPredictions = "mtp";

/// "mtp" of "mtp.{k}.enorm", "head" of "head".
std::string head_of(std::string_view logical) {
    return std::string(logical.substr(0, logical.find_first_of(".{")));
}

using ModulesByName = std::map<std::string, std::string>;

/// Which module the names of the model's lines belong to, of which all is stored or supplied, or
/// nothing: what their logical names begin with.
ModulesByName modules_of(const HeldModel& hub) {
    ModulesByName modules;
    plan::for_each_hub_name(*hub.recipe, *hub.symbols, [&](const plan::HubName& name) {
        const std::string head = head_of(name.line->logical);
        // All of the decoder's layers are one: none of them is lost by training.
        const bool is_layer = head != kOfPredictions && name.captures.contains("l");
        modules.emplace(name.name, is_layer ? "layers" : head);
        return true;
    });
    return modules;
}

/// A tensor without a line belongs to what its name begins with, such as a tower.
std::string module_of(const ModulesByName& modules, const std::string& name) {
    if (auto* const found = find_value(modules, name)) {
        return *found;
    }
    const std::string_view own = without_model(name);
    return "." + std::string(own.substr(0, own.find('.')));
}

/// Error(mismatch) where a module is stored in part.
void require_whole_modules(const ModulesByName& modules, const Targets& stored,
                           const std::set<std::string>& supplied, const Checkpoint& reference) {
    std::map<std::string, std::string> of_stored;
    for (const Target& target : stored) {
        of_stored.emplace(module_of(modules, target.name), target.name);
    }
    for (const std::string& name : supplied) {
        const auto part = of_stored.find(module_of(modules, name));
        if (part != of_stored.end()) {
            throw Error(ErrorCode::mismatch,
                        "the checkpoint does not have " + name + ", but " + part->second +
                            " of the same module: " + shown(reference) +
                            " does not complete what was trained",
                        "copy the files of the save again: this one lost a part of the module");
        }
    }
}

/// The model as it is stored on the Hub, whatever is written.
HeldModel prepare_hub(const HeldModel& prepared, Catalogue& catalogue) {
    JobModel choice = prepared.choice;
    choice.output.form.clear();
    choice.output.quantise.reset();
    choice.like.reset();
    return prepare_model(prepared.files, choice, catalogue);
}

Binding bind_some(const HeldModel& prepared, Catalogue catalogue, plan::BindOptions bind_options) {
    bind_options.may_lack = true;
    return plan::bind(std::move(catalogue), prepared.model(), bind_options);
}

/// The reference, bound by the checkpoint's config.json.
Binding bind_reference(const HeldModel& prepared, const plan::BindOptions& bind_options,
                       Catalogue catalogue, const Checkpoint& reference) {
    try {
        return bind_some(prepared, std::move(catalogue), bind_options);
    } catch (Error& error) {
        error.add_context(shown(reference));
        error.set_hint(
            "give a reference that config.json describes, such as the model that the "
            "training began with");
        throw;
    }
}

/// The names that the reference has to give.
std::set<std::string> supplied_names(const HeldModel& hub, const Binding& checkpoint,
                                     const Binding& reference) {
    std::set<std::string> stored = collect_set(checkpoint.targets, plan::full_name);
    const std::set<std::string> lacking(checkpoint.lacking.begin(), checkpoint.lacking.end());
    return collect_set(reference.targets, plan::full_name, [&](const Target& target) {
        return !stored.contains(target.name) &&
               (lacking.contains(target.name) || plan::passes_unlisted(*hub.recipe, target.name));
    });
}

/// Error(mismatch) where both have a tensor, and write it in two types.
void require_types(const Targets& reference, const Targets& stored, const Checkpoint& of) {
    std::map<std::string, DType> types;
    for (const Target& target : stored) {
        types.emplace(target.name, target.dtype);
    }
    for (const Target& target : reference) {
        auto* const own = find_value(types, target.name);
        if (own != nullptr && *own != target.dtype) {
            throw Error(ErrorCode::mismatch,
                        target.name.text() + " is " + torch_name(target.dtype) + " in " +
                            shown(of) + " and " + torch_name(*own) + " in the checkpoint",
                        "give --dtype, in which both are written");
        }
    }
}

void require_no_codes(const Checkpoint& reference) {
    if (plan::holds_encoded(reference.catalogue) ||
        !named_trace(reference.catalogue).tensor.empty() ||
        !integer_trace(reference.catalogue).tensor.empty()) {
        throw Error(ErrorCode::unsupported, shown(reference) + " stores weights as codes",
                    "merge it with --dtype bf16 first, and give the result");
    }
}

/// The targets of the reference that are supplied: those called so, or pieces of which the
/// checkpoint's binding has none.
Targets take_supplied(Targets reference, const Binding& checkpoint,
                      const plan::BindOptions& bind_options) {
    std::set<std::string> names = collect_set(bind_options.supplied, [&](const std::string& name) {
        return bind_options.spelled ? bind_options.spelled(name) : name;
    });
    std::set<std::string> bound;
    for (const Target& target : checkpoint.targets) {
        bound.insert(target.name);
    }
    std::erase_if(reference, [&](const Target& target) {
        return bound.contains(target.name) ||
               (!bind_options.pieces && !names.contains(target.name));
    });
    return reference;
}

/// What plan::bind makes of the checkpoint with `bind_options`; beside its targets stand those of
/// the reference (JobModel::supplement) whose names the model has and the checkpoint does not,
/// bound by the same config.json (Binding::supplied). Nothing is taken for a module of which the
/// checkpoint holds a part. Pure. Error(mismatch) for such a part, with a name of either side; for
/// shapes of the reference that are not the model's; for types that are others than the
/// checkpoint's in what both have; for what both lack. Error(unsupported) for a reference of codes.
/// Else as plan::bind.
Binding bind_supplemented(const HeldModel& prepared, const plan::BindOptions& bind_options,
                          Catalogue checkpoint) {
    const Checkpoint& reference = *prepared.choice.supplied;
    require_no_codes(reference);
    Catalogue copy = checkpoint;
    const HeldModel hub = prepare_hub(prepared, copy);
    const Binding stored = bind_some(hub, std::move(copy), {});
    Catalogue other = reference.catalogue;
    const HeldModel other_hub = prepare_hub(prepared, other);
    plan::BindOptions as_hub;
    as_hub.dtype = bind_options.dtype;
    Binding found = bind_reference(other_hub, as_hub, std::move(other), reference);
    plan::BindOptions rest = bind_options;
    rest.supplied = supplied_names(hub, stored, found);
    require_whole_modules(modules_of(hub), stored.targets, rest.supplied, reference);
    Binding binding;
    try {
        binding = plan::bind(std::move(checkpoint), prepared.model(), rest);
    } catch (Error& error) {
        error.add_context("with what " + shown(reference) + " has");
        throw;
    }
    Catalogue again = reference.catalogue;
    const HeldModel other_prepared = prepare_model(prepared.files, prepared.choice, again);
    plan::BindOptions of_reference = bind_options_of(other_prepared);
    of_reference.spelled = bind_options.spelled;
    Binding whole = bind_reference(other_prepared, of_reference, std::move(again), reference);
    require_types(whole.targets, binding.targets, reference);
    plan::supplement(binding, take_supplied(std::move(whole.targets), binding, rest));
    return binding;
}

/// "3 tensors of DIR, which the checkpoint does not have: ..."; "nothing: ...".
std::string supplement_text(const Checkpoint& reference, const Binding& binding) {
    return binding.supplied.empty()
               ? shown(reference) + " gives nothing: the checkpoint has all of the model"
               : shown(reference) + " gives " + counted(binding.supplied.size(), "tensor") +
                     " that the checkpoint does not have: " + listed(binding.supplied);
}

/// Makes values of weights that are stored as codes.
void dequantise(const std::vector<plan::EncodedWeight>& weights, HeldModel& model) {
    if (!weights.empty()) {
        model.factors = plan::make_of_codes(model.binding, weights, kFactors);
        model.binding_notes.push_back(counted(weights.size(), "weight") +
                                      " are stored as codes and scales: they are written as bf16");
    }
}

/// Weights that do not fit because they are codes are no fault of config.json.
plan::Binding bind_of_floats(catalogue::Catalogue catalogue, const HeldModel& prepared,
                             const plan::BindOptions& options) {
    const QuantisationTrace trace = integer_trace(catalogue);
    try {
        return plan::bind(std::move(catalogue), prepared.model(), options);
    } catch (const Error& error) {
        if (trace.tensor.empty() || error.code() != ErrorCode::mismatch) {
            throw;
        }
        refuse_unread(prepared.config, trace);
    }
}

}  // namespace

void bind_alone(HeldModel& model, const Job& job, catalogue::Catalogue catalogue) {
    const bool is_copied = model.recipe->hub.empty() && !model.choice.output.dtype;
    const auto idle = is_copied ? std::vector<std::string>() : plan::leave_idle_scales(catalogue);
    const auto encoded = encoded_weights(model, job, catalogue);
    plan::BindOptions bind_options = bind_options_of(model);
    bind_options.spelled = spelling_of(model);
    bind_options.keeps_padding = job.inputs.front().state != formats::TakenState::weights;
    if (const auto& reference = model.choice.supplied) {
        model.binding = bind_supplemented(model, bind_options, std::move(catalogue));
        model.told.push_back(supplement_text(*reference, model.binding));
    } else {
        model.binding = bind_of_floats(std::move(catalogue), model, bind_options);
    }
    dequantise(encoded, model);
    if (!idle.empty()) {
        model.binding.warnings.push_back(
            {"scales_unused", idle.front(),
             counted(idle.size(), "weight") + " " + verb_of(idle.size(), "is", "are") +
                 " stored as values beside scales, which are left out: " + listed(idle) +
                 "; compressed-tensors saves a model so after a forward pass"});
    }
}

}  // namespace shardweld::app
