#include "supplement.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "plan/bind/as_stored.hpp"
#include "plan/bind/dequantise.hpp"
#include "plan/bind/hub_names.hpp"
#include "shardweld/error.hpp"

#include "bind_options.hpp"
#include "unread_quantisation.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;
using plan::Binding;
using plan::Target;

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

/// Which module each name of the model belongs to: what one part of is stored or supplied as a
/// whole. A line's module is what its logical names begin with; a tensor without a line belongs to
/// what its name begins with, such as a tower.
class ModuleNames {
  public:
    explicit ModuleNames(const PreparedModel& hub) {
        plan::for_each_hub_name(*hub.recipe, *hub.symbols, [&](const plan::HubName& name) {
            const std::string head = head_of(name.line->logical);
            // All of the decoder's layers are one: none of them is lost by training.
            const bool is_layer = head != kOfPredictions && name.captures.contains("l");
            of_names_.emplace(name.name, is_layer ? "layers" : head);
            return true;
        });
    }

    [[nodiscard]] std::string of(const std::string& name) const {
        const auto found = of_names_.find(name);
        if (found != of_names_.end()) {
            return found->second;
        }
        const std::string_view own = without_model(name);
        return "." + std::string(own.substr(0, own.find('.')));
    }

  private:
    std::map<std::string, std::string> of_names_;
};

/// Error(mismatch) where a module is stored in part.
void require_whole_modules(const ModuleNames& modules, const std::vector<Target>& stored,
                           const std::set<std::string>& supplied, const Checkpoint& reference) {
    std::map<std::string, std::string> of_stored;
    for (const Target& target : stored) {
        of_stored.emplace(modules.of(target.name), target.name);
    }
    for (const std::string& name : supplied) {
        const auto part = of_stored.find(modules.of(name));
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
PreparedModel prepare_hub(const PreparedModel& prepared, const ModelFiles& files,
                          Catalogue& catalogue) {
    JobModel choice = prepared.choice;
    choice.output.form.clear();
    choice.output.quantise.reset();
    choice.like.reset();
    return prepare_model(files, choice, catalogue);
}

Binding bind_some(const PreparedModel& prepared, Catalogue catalogue,
                  plan::BindOptions bind_options) {
    bind_options.may_lack = true;
    return plan::bind(std::move(catalogue), prepared.model(), bind_options);
}

/// The reference, bound by the checkpoint's config.json.
Binding bind_reference(const PreparedModel& prepared, const plan::BindOptions& bind_options,
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
std::set<std::string> supplied_names(const PreparedModel& hub, const Binding& checkpoint,
                                     const Binding& reference) {
    std::set<std::string> stored;
    for (const Target& target : checkpoint.targets) {
        stored.insert(target.name);
    }
    const std::set<std::string> lacking(checkpoint.lacking.begin(), checkpoint.lacking.end());
    std::set<std::string> names;
    for (const Target& target : reference.targets) {
        if (!stored.contains(target.name) &&
            (lacking.contains(target.name) || plan::passes_unlisted(*hub.recipe, target.name))) {
            names.insert(target.name);
        }
    }
    return names;
}

/// Error(mismatch) where both have a tensor, and write it in two types.
void require_types(const std::vector<Target>& reference, const std::vector<Target>& stored,
                   const Checkpoint& of) {
    std::map<std::string_view, DType> types;
    for (const Target& target : stored) {
        types.emplace(target.name, target.dtype);
    }
    for (const Target& target : reference) {
        const auto own = types.find(target.name);
        if (own != types.end() && own->second != target.dtype) {
            throw Error(ErrorCode::mismatch,
                        target.name + " is " + std::string(torch_name(target.dtype)) + " in " +
                            shown(of) + " and " + std::string(torch_name(own->second)) +
                            " in the checkpoint",
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
std::vector<Target> take_supplied(std::vector<Target> reference, const Binding& checkpoint,
                                  const plan::BindOptions& bind_options) {
    std::set<std::string> names;
    for (const std::string& name : bind_options.supplied) {
        names.insert(bind_options.spelled ? bind_options.spelled(name) : name);
    }
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

}  // namespace

Binding bind_supplemented(const PreparedModel& prepared, const ModelFiles& files,
                          const plan::BindOptions& bind_options, Catalogue checkpoint) {
    const Checkpoint& reference = *prepared.choice.supplied;
    require_no_codes(reference);
    Catalogue copy = checkpoint;
    const PreparedModel hub = prepare_hub(prepared, files, copy);
    const Binding stored = bind_some(hub, std::move(copy), {});
    Catalogue other = reference.catalogue;
    const PreparedModel other_hub = prepare_hub(prepared, files, other);
    plan::BindOptions as_hub;
    as_hub.dtype = bind_options.dtype;
    Binding found = bind_reference(other_hub, as_hub, std::move(other), reference);
    plan::BindOptions rest = bind_options;
    rest.supplied = supplied_names(hub, stored, found);
    require_whole_modules(ModuleNames(hub), stored.targets, rest.supplied, reference);
    Binding binding;
    try {
        binding = plan::bind(std::move(checkpoint), prepared.model(), rest);
    } catch (Error& error) {
        error.add_context("with what " + shown(reference) + " has");
        throw;
    }
    Catalogue again = reference.catalogue;
    const PreparedModel other_prepared = prepare_model(files, prepared.choice, again);
    plan::BindOptions of_reference = bind_options_of(other_prepared);
    of_reference.spelled = bind_options.spelled;
    Binding whole = bind_reference(other_prepared, of_reference, std::move(again), reference);
    require_types(whole.targets, binding.targets, reference);
    plan::supplement(binding, take_supplied(std::move(whole.targets), binding, rest));
    return binding;
}

std::string supplement_text(const Checkpoint& reference, const Binding& binding) {
    return binding.supplied.empty()
               ? shown(reference) + " gives nothing: the checkpoint has all of the model"
               : shown(reference) + " gives " + counted(binding.supplied.size(), "tensor") +
                     " that the checkpoint does not have: " + listed(binding.supplied);
}

}  // namespace shardweld::app
