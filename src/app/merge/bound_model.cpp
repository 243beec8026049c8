#include "bound_model.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "app/binding/bind_model.hpp"
#include "app/binding/untied.hpp"
#include "app/binding/written_model.hpp"
#include "app/family/training_form.hpp"
#include "app/settings/job.hpp"
#include "catalogue/catalogue.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "layout/patch.hpp"
#include "models/forms/written_form.hpp"
#include "outputs/gguf.hpp"
#include "plan/bind/dequantise.hpp"
#include "plan/bind/quantise.hpp"
#include "plan/schedule/relation.hpp"
#include "shardweld/error.hpp"

#include "bind_checkpoint.hpp"
#include "mixing.hpp"

namespace shardweld::app {

namespace {

/// What is said of the model as a whole, behind general.type. The name is that of config.json, or
/// none: a directory's would make other bytes in another place.
void add_general_keys(const HeldModel& prepared, const plan::Targets& targets, Metadata& metadata) {
    std::vector<outputs::GgufSize> sizes;
    for (const plan::Target& target : targets) {
        const bool is_stack = has_part(target.name.text(), "_exps.") && target.shape.size() > 2;
        const layout::Range elements = target.sources(0, target.volume());
        sizes.push_back({elements.extent, is_stack ? target.shape.front() : 0});
    }
    std::vector<MetadataField> fields;
    const auto name = prepared.config.text("_name_or_path");
    if (name && std::ranges::count(*name, '/') <= 1 && !outputs::gguf_title(*name).empty()) {
        fields.push_back(MetadataField::text("general.name", outputs::gguf_title(*name)));
    }
    fields.push_back(MetadataField::text("general.size_label", outputs::gguf_size_label(sizes)));
    const auto type = std::ranges::find(metadata, "general.type", &MetadataField::key);
    metadata.insert(type == metadata.end() ? type : type + 1, fields.begin(), fields.end());
}

/// The tokenizer's keys. What the form says of one of them stands in its place.
void add_tokenizer(const Metadata& keys, Metadata& metadata) {
    Metadata stated;
    const auto is_tokenizer = [](const MetadataField& field) {
        return field.key.starts_with("tokenizer.");
    };
    std::ranges::copy_if(metadata, std::back_inserter(stated), is_tokenizer);
    std::erase_if(metadata, is_tokenizer);
    for (const MetadataField& field : keys) {
        auto* const same = find_item(stated, field.key, &MetadataField::key);
        metadata.push_back(same == nullptr ? field : *same);
    }
}

/// GGUF files of this model; adds the tensors that only they have.
std::shared_ptr<const outputs::OutputFormat> gguf_output(const HeldModel& prepared,
                                                         const GgufTokenizer& tokenizer,
                                                         plan::Targets& targets) {
    constexpr std::int64_t kQuantisationVersion = 2;  // ggml.h, GGML_QNT_VERSION
    const models::Dialect& form = *prepared.form;
    Metadata metadata = models::metadata_of(form, *prepared.symbols, prepared.config);
    metadata.push_back(MetadataField::u32("general.quantization_version", kQuantisationVersion));
    add_tokenizer(tokenizer.keys, metadata);
    const auto factors = form.rope_factors.empty()
                             ? std::vector<float>()
                             : models::rope_factors(*prepared.symbols, prepared.config);
    if (!factors.empty()) {
        plan::Target target = plan::literal_target(
            form.rope_factors, DType::f32, std::ssize(factors), std::as_bytes(std::span(factors)));
        const auto place =
            std::ranges::lower_bound(targets, target.name.text(), natural_less, plan::full_name);
        targets.insert(place, std::move(target));
    }
    add_general_keys(prepared, targets, metadata);
    return outputs::gguf_format_of(*prepared.choice.output.ggml(), std::move(metadata),
                                   prepared.choice.output.gguf_file);
}

/// --quantize: the weights that are bound become codes and scales.
void quantise_model(const std::optional<Encoding>& encoding,
                    const std::optional<std::string>& ignored, HeldModel& model) {
    if (!encoding) {
        return;
    }
    const Selection left{std::nullopt, ignored};
    const auto is_ignored = [is_taken = selects(left)](const std::string& name) {
        return !is_taken(name);
    };
    plan::Targets& targets = model.binding.targets;
    model.quantisation = model.form == nullptr
                             ? plan::quantise(targets, model.model(), *encoding, is_ignored)
                             : plan::quantise_ggml(targets, model.model(), *encoding, is_ignored);
    if (model.form != nullptr) {
        model.output = gguf_output(model, model.files.gguf_tokenizer, model.binding.targets);
        for (const std::string& text : model.files.gguf_tokenizer.warnings) {
            model.binding.warnings.push_back({"gguf_tokenizer", "", text});
        }
    }
    const plan::Quantisation& made = *model.quantisation;
    model.binding_notes.push_back(counted(made.n_quantised, "weight") + " are written as " +
                                  std::string(facts_of(made.encoding).name));
    append_all(model.binding_notes, made.notes);
}

/// A target that no line of a recipe makes is one logical patch under its own name.
void add_own_patches(plan::Targets& targets) {
    for (plan::Target& target : targets) {
        if (target.logical_patches.empty() && !target.operands.empty()) {
            target.logical_patches.push_back({target.name, layout::dense_shape(target.shape)});
        }
    }
}

/// --also: the same tensors in another type. Ledger, notes and factors are the first's.
HeldModel in_other_type(const JobOutput& first, const JobOutput& output, const HeldModel& model) {
    HeldModel one = model;
    one.stored.reset();
    one.trace.clear();
    one.binding_notes.clear();
    one.factors.clear();
    if (output.dtype && output.dtype != first.dtype) {
        plan::write_as(one.binding.targets, *output.dtype);
    }
    return one;
}

/// --also: tensors of another form, bound to what is stored as in a merge of their own.
HeldModel in_other_form(const Job& job, const JobOutput& output, const HeldModel& model) {
    JobModel choice = model.choice;
    choice.output = output;
    choice.has_module_names = choice.has_module_names && !output.is_training();
    catalogue::Catalogue catalogue = *model.stored;
    HeldModel one = prepare_for_fold(model.files, choice, catalogue);
    bind_model(one, job, std::move(catalogue));
    return one;
}

/// What is found in an output that is not the first.
void report_other(const Run& run, Output& output, const HeldModel& first) {
    const HeldModel& model = output.model;
    for (const std::string& note : model.binding_notes) {
        run.log.debug(output.asked().directory.string() + ": " + note);
    }
    output.report.ledger = model.binding.ledger;
    output.report.supplement = model.binding.supplied;
    const auto warn_of = [&](Warnings own, const Warnings& known) {
        std::erase_if(own, [&](const Warning& warning) {
            return contains(known, warning.text, &Warning::text);
        });
        warn(run, output.report, own);
    };
    warn_of(model.warnings, first.warnings);
    warn_of(model.binding.warnings, first.binding.warnings);
}

/// Binds the others to what was read for the first, whose model is `model`. `primary`: the first
/// that is a model. `is_cut`: training checkpoints are cut from the model's weights, else they are
/// bound to what is stored.
void bind_others(const Run& run, Merge& merge, std::size_t primary, bool is_cut, HeldModel model) {
    const auto n_files = static_cast<std::uint32_t>(merge.input.files.size());
    const bool is_first_cut = is_cut && merge.first().asked().is_training();
    HeldModel& first = merge.first().model;
    if (is_first_cut) {
        first = cut_from(model, merge.first().asked().form, merge.like, n_files);
        first.factors = model.factors;
    } else {
        first = std::move(model);
    }
    const HeldModel& source = is_first_cut ? model : first;
    for (const std::size_t at : indices(merge.outputs)) {
        Output& output = merge.outputs[at];
        const JobOutput& asked = output.asked();
        if (at > 0 && is_cut && asked.is_training()) {
            output.model = cut_from(source, asked.form, nullptr, n_files);
        } else if (at > 0 && (at == primary || asked.is_training() || asked.ggml())) {
            output.model = in_other_form(run.job, asked, source);
        } else if (at > 0) {
            const Output& like = merge.outputs[primary];
            output.model = in_other_type(like.asked(), asked, like.model);
        }
        if (at == primary && merge.outputs.size() > 1) {
            add_own_patches(output.model.binding.targets);
        }
    }
    first.stored.reset();
}

/// A model for each output. Every tensor of a model is made of what is read for the first of them,
/// training checkpoints of what is read for each. Local.
void bind_all(const Run& run, Merge& merge, bool is_cut, HeldModel model) {
    const auto first_model = std::ranges::find_if(
        merge.outputs, [](const Output& one) { return !one.asked().is_training(); });
    const auto primary = as_size(first_model - merge.outputs.begin());
    bind_others(run, merge, primary, is_cut, std::move(model));
    std::vector<plan::Targets*> others;
    for (const std::size_t at : indices(merge.outputs)) {
        Output& output = merge.outputs[at];
        HeldModel& one = output.model;
        if (one.training != nullptr) {
            one.output = one.training->format(one.binding, pointer_to(one.optimizer));
            return_freed_memory();  // what stands in a million places is settled
        }
        quantise_model(output.asked().quantise, run.job.model.quantise_ignore, one);
        if (at > 0) {
            report_other(run, output, merge.first().model);
        }
        if (at > primary && one.training == nullptr) {
            others.push_back(&one.binding.targets);
        }
    }
    if (!others.empty()) {
        plan::share_strips(merge.outputs[primary].model.binding.targets, others);
    }
}

/// Training checkpoints hold no codes: the weights become bf16, unless a model beside them keeps
/// the codes, since nothing else is asked for it.
std::optional<DType> type_beside_codes(const Merge& merge) {
    if (!merge.writes_training()) {
        return std::nullopt;
    }
    if (!merge.first().asked().is_training()) {
        throw Error(ErrorCode::unsupported,
                    "the model is stored as codes and scales, which it keeps and training "
                    "checkpoints do not hold",
                    "give --dtype bf16");
    }
    return DType::bf16;
}

void report_binding(const Run& run, Output& first) {
    const HeldModel& model = first.model;
    for (const auto* notes : {&model.notes, &model.binding_notes}) {
        std::ranges::for_each(*notes, [&](const std::string& note) { run.log.debug(note); });
    }
    for (const std::string& note : model.told) {
        run.log.info("note: " + note);
    }
    if (!model.unheeded.empty()) {
        run.log.info("note: " + model.unheeded);
    }
    run.report->recipe = model.recipe->name;
    run.report->verification = model.verification;
    warn(run, model.warnings);
    warn(run, model.binding.warnings);
    first.report.ledger = model.binding.ledger;
    first.report.supplement = model.binding.supplied;
    run.watch->lap("bind");
}

}  // namespace

void bind_outputs(const Run& run, Merge& merge) {
    const JobOutput& first = merge.first().asked();
    const plan::JobPlan choice = merge.choice_for(run.job, merge.here);
    catalogue::Catalogue& catalogue = merge.weights().catalogue;
    JobModel wanted = model_choice(run.job, first, merge.is_written);
    const bool is_cut = is_cut_from_model(run.job, catalogue);
    wanted.like = merge.like;
    wanted.supplied = merge.supplement;
    if (!wanted.output.dtype && plan::holds_encoded(catalogue)) {
        mpi::collectively(run.comm, [&] { wanted.output.dtype = type_beside_codes(merge); });
    }
    if (is_cut && first.is_training()) {
        wanted.output.form.clear();
    }
    HeldModel model = bind_checkpoint(run, merge.input, *std::move(merge.model_files),
                                      std::move(catalogue), wanted, choice);
    model = mix_in(run, merge, std::move(model), choice);
    mpi::collectively(run.comm, [&] { bind_all(run, merge, is_cut, std::move(model)); });
    for (std::size_t at = 1; at < merge.outputs.size(); ++at) {
        merge.input.sums->use_records_of(merge.outputs[at].model.binding.targets);
    }
    report_binding(run, merge.first());
}

}  // namespace shardweld::app
