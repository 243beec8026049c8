#include "written_model.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "adapters/separate.hpp"
#include "app/family/prepare_model.hpp"
#include "catalogue/catalogue.hpp"
#include "formats/shared/hints.hpp"
#include "plan/bind/dequantise.hpp"
#include "plan/bind/recut.hpp"
#include "shardweld/error.hpp"

#include "bind_options.hpp"

namespace shardweld::app {

namespace {

/// The model as the reader of a HuggingFace directory would find it.
catalogue::Catalogue as_stored(const HeldModel& model, std::uint32_t first_file) {
    catalogue::Catalogue stored;
    stored.format = "huggingface";
    stored.dialect = "hf_module";
    stored.tensors = plan::as_tensors(model.binding.targets, first_file);
    return stored;
}

/// As when the model is reshaped that was written: nothing is asked for but the form.
JobModel choice_for(const JobModel& of_model, const std::string& form) {
    JobModel choice = of_model;
    choice.has_module_names = false;
    choice.lora = Lora::drop;
    choice.output.dtype.reset();
    choice.output.form = form;
    choice.has_logical_patches = false;
    return choice;
}

/// The warnings about the model, and behind them those about the form alone.
Warnings both(Warnings of_model, const Warnings& of_form) {
    std::ranges::copy_if(of_form, std::back_inserter(of_model), [&](const Warning& warning) {
        return !contains(of_model, warning.text, &Warning::text);
    });
    return of_model;
}

/// Weights whose norms are taken before any part of them is folded, in a file that nobody writes.
plan::Targets normalised_of(const plan::Targets& targets) {
    auto normalised =
        collect_list<plan::Target>(targets, std::identity(), [](const plan::Target& target) {
            return target.fold && target.fold->norm != plan::Fold::Norm::none;
        });
    for (plan::Target& target : normalised) {
        target.file = kFactors;
    }
    return normalised;
}

}  // namespace

publish::Facts facts_of(const HeldModel& model, const plan::Targets& targets) {
    publish::Facts facts = publish::facts_of(targets, model.binding.logicals, *model.recipe);
    facts.predictions = model.binding.n_predictions;
    facts.to_token_classes = model.is_value;
    const auto& made = model.quantisation;
    if (made && !facts_of(made->encoding).is_ggml()) {
        facts.quantisation = publish::quantisation_config(made->encoding, made->kept);
    }
    return facts;
}

bool is_cut_from_model(const Job& job, const catalogue::Catalogue& catalogue) {
    const bool is_folded = job.model.lora == Lora::fold && (adapters::holds_adapter(catalogue) ||
                                                            holds_framework_adapter(catalogue));
    return is_folded || plan::holds_encoded(catalogue);
}

HeldModel cut_from(const HeldModel& model, const std::string& form,
                   std::shared_ptr<const Checkpoint> like, std::uint32_t n_files) {
    if (model.optimizer) {
        throw Error(ErrorCode::unsupported,
                    "the weights are made on the way (an adapter is folded into them, or they are "
                    "stored as codes), and states of an optimizer belong to weights as they were "
                    "trained",
                    formats::kWeightsOnly);
    }
    const plan::Binding& whole = model.binding;
    ModelFiles files = model.files;
    std::vector<std::string> told_with_the_model;
    files.config_text =
        publish::true_config(model.config, facts_of(model, whole.targets), told_with_the_model)
            .text_to_write();
    catalogue::Catalogue stored = as_stored(model, n_files);
    JobModel choice = choice_for(model.choice, form);
    choice.like = std::move(like);
    HeldModel cut = prepare_model(files, choice, stored);
    cut.trace = model.trace;
    cut.warnings = both(model.warnings, cut.warnings);
    plan::Binding& binding = cut.binding;
    binding = plan::bind(std::move(stored), cut.model(), bind_options_of(cut));
    plan::recut(whole.targets, n_files, binding.targets);
    binding.same.clear();
    binding.ledger = whole.ledger;
    binding.warnings = both(whole.warnings, binding.warnings);
    cut.normalised = normalised_of(whole.targets);
    cut.binding_notes = model.binding_notes;
    cut.unheeded = model.unheeded;
    return cut;
}

}  // namespace shardweld::app
