#include "bind_checkpoint.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "app/binding/bind_model.hpp"
#include "app/binding/saved_names.hpp"
#include "app/binding/untied.hpp"
#include "models/config.hpp"
#include "models/config_tree.hpp"
#include "models/forms/saved_form.hpp"
#include "plan/bind/trace.hpp"
#include "shardweld/error.hpp"

#include "tied.hpp"

namespace shardweld::app {

namespace {

/// The metadata where they may be bound anew, for a binding consumes them: where the recipe ties
/// two tensors that may turn out to differ (models with a tied head are small), and for another
/// form.
std::shared_ptr<catalogue::Catalogue> kept_if_needed(const HeldModel& prepared,
                                                     const catalogue::Catalogue& catalogue) {
    const auto& rules = prepared.recipe->same;
    const bool is_tied = std::ranges::any_of(
        rules, [&](const auto& rule) { return prepared.symbols->holds(rule.condition); });
    return is_tied || has_second_names(prepared, catalogue) || prepared.choice.is_bound_again
               ? std::make_shared<catalogue::Catalogue>(catalogue)
               : nullptr;
}

HeldModel bind(const Run& run, const Input& input, ModelFiles files, catalogue::Catalogue catalogue,
               const JobModel& choice) {
    const std::string& trace = run.job.run.trace;
    HeldModel model;
    mpi::collectively(run.comm, [&] {
        model = prepare_for_fold(std::move(files), choice, catalogue);
        model.stored = kept_if_needed(model, catalogue);
        if (!trace.empty()) {
            model.trace = plan::trace_stored(catalogue, model.model(), trace);
        }
        bind_model(model, run.job, std::move(catalogue));
    });
    input.sums->use_records_of(model.binding.targets);
    input.sums->use_records_of(model.factors);
    return model;
}

std::string text_of(const Untied& untied) {
    return untied.stored_name + " differs from " + untied.target + " in " +
           std::to_string(untied.n_elements) + " elements, though the model ties them";
}

/// Plain tensors of which nothing tells the shape, and that are no replicas.
void require_known_shape(const Untied& untied) {
    if (untied.why == plan::SamePair::Why::presumed) {
        throw Error(
            ErrorCode::mismatch,
            untied.stored_name + " is a plain tensor that differs between ranks in " +
                std::to_string(untied.n_elements) + " elements, and no recipe states its shape",
            "if the ranks hold shards of dim 0, say so with --mesh_dim_names fsdp --mesh_shape N");
    }
}

/// Where no recipe tells which part of config.json ties them, none does.
std::string said_untied(const models::Config& config) {
    models::ConfigTree tree(config);
    tree.set(models::kTiedField, false);
    for (const std::string& part : tree.parts()) {
        const std::string path = part + "." + models::kTiedField;
        if (tree.flag(path)) {
            tree.set(path, false);
        }
    }
    return tree.text_to_write();
}

/// Both are kept, unless the checkpoint itself says that they are one.
HeldModel bind_untied(const Run& run, const Input& input, HeldModel tied, const Untied& untied) {
    const std::string text = text_of(untied);
    catalogue::Catalogue catalogue = std::move(*tied.stored);
    if (shares_embeddings(catalogue)) {
        throw Error(ErrorCode::mismatch, text + " and the training job shared them",
                    "copy all files from one save: the checkpoint contradicts itself");
    }
    ModelFiles files = std::move(tied.files);
    JobModel choice = tied.choice;
    models::Config config = models::Config::parse(files.config_text, files.config_path);
    if (!models::promises_tensors(*tied.recipe)) {
        files.config_text = said_untied(config);
    } else {
        untie(config, tied);
        files.config_text = config.text_to_write();
    }
    choice.is_tied = false;
    tied = {};
    HeldModel model = bind(run, input, std::move(files), std::move(catalogue), choice);
    warn(
        run,
        Warning{"tied_differs", untied.stored_name,
                text + ": both are written and config.json's tie_word_embeddings is set to false"});
    return model;
}

/// Copies that must equal another tensor are compared with it, by the ranks that are here.
HeldModel resolve_ties(const Run& run, const Input& input, HeldModel model,
                       const plan::JobPlan& choice) {
    const std::vector<Untied> untied =
        compare_same(run.comm, model.binding, source_of(run, input), input.visibility, choice);
    if (untied.empty()) {
        if (!model.choice.is_bound_again) {
            model.stored.reset();
        }
        return model;
    }
    report_what_was_read(run, input, {});
    for (const Untied& one : untied) {
        require_known_shape(one);
    }
    return bind_untied(run, input, std::move(model), untied.front());
}

}  // namespace

HeldModel bind_checkpoint(const Run& run, const Input& input, ModelFiles files,
                          catalogue::Catalogue catalogue, const JobModel& wanted,
                          const plan::JobPlan& choice) {
    HeldModel model = bind(run, input, std::move(files), std::move(catalogue), wanted);
    return resolve_ties(run, input, std::move(model), choice);
}

}  // namespace shardweld::app
