#include "bound_model.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "app/family/bind_model.hpp"
#include "app/family/training_form.hpp"
#include "app/family/untied.hpp"
#include "app/family/written_model.hpp"
#include "app/settings/job.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "layout/patch.hpp"
#include "models/written_form.hpp"
#include "mpi/share.hpp"
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
void add_general_keys(const PreparedModel& prepared, const std::vector<plan::Target>& targets,
                      Metadata& metadata) {
    std::vector<outputs::GgufSize> sizes;
    for (const plan::Target& target : targets) {
        const bool is_stack =
            target.name.find("_exps.") != std::string::npos && target.shape.size() > 2;
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
        const auto same = std::ranges::find(stated, field.key, &MetadataField::key);
        metadata.push_back(same == stated.end() ? field : *same);
    }
}

/// GGUF files of this model; adds the tensors that only they have.
std::shared_ptr<const outputs::OutputFormat> gguf_output(const PreparedModel& prepared,
                                                         const GgufTokenizer& tokenizer,
                                                         std::vector<plan::Target>& targets) {
    constexpr std::int64_t kQuantisationVersion = 2;  // ggml.h, GGML_QNT_VERSION
    const models::Dialect& form = *prepared.form;
    Metadata metadata = models::metadata_of(form, *prepared.symbols, prepared.config);
    metadata.push_back(MetadataField::u32("general.quantization_version", kQuantisationVersion));
    add_tokenizer(tokenizer.keys, metadata);
    const auto factors = form.rope_factors.empty()
                             ? std::vector<float>()
                             : models::rope_factors(*prepared.symbols, prepared.config);
    if (!factors.empty()) {
        plan::Target target =
            plan::literal_target(form.rope_factors, DType::f32, static_cast<Index>(factors.size()),
                                 std::as_bytes(std::span(factors)));
        const auto place =
            std::ranges::lower_bound(targets, target.name, natural_less, &plan::Target::name);
        targets.insert(place, std::move(target));
    }
    add_general_keys(prepared, targets, metadata);
    return outputs::gguf_format_of(*prepared.choice.output.ggml(), std::move(metadata),
                                   prepared.choice.output.gguf_file);
}

/// --quantize: the weights that are bound become codes and scales.
void quantise_bound(const PreparedModel& prepared, const ModelFiles& files,
                    const std::optional<Encoding>& encoding,
                    const std::optional<std::string>& ignored, Bound& bound) {
    if (!encoding) {
        return;
    }
    const Selection left{std::nullopt, ignored};
    const auto is_ignored = [is_taken = selects(left)](const std::string& name) {
        return !is_taken(name);
    };
    std::vector<plan::Target>& targets = bound.binding.targets;
    bound.quantisation =
        prepared.form == nullptr
            ? plan::quantise(targets, prepared.model(), *encoding, is_ignored)
            : plan::quantise_ggml(targets, prepared.model(), *encoding, is_ignored);
    if (prepared.form != nullptr) {
        bound.output = gguf_output(prepared, files.gguf_tokenizer, bound.binding.targets);
        for (const std::string& text : files.gguf_tokenizer.warnings) {
            bound.binding.warnings.push_back({"gguf_tokenizer", "", text});
        }
    }
    const plan::Quantisation& made = *bound.quantisation;
    bound.notes.push_back(counted(static_cast<std::size_t>(made.n_quantised), "weight") +
                          " are written as " + std::string(facts_of(made.encoding).name));
    bound.notes.insert(bound.notes.end(), made.notes.begin(), made.notes.end());
}

/// A target that no line of a recipe makes is one logical patch under its own name.
void add_own_patches(std::vector<plan::Target>& targets) {
    for (plan::Target& target : targets) {
        if (target.logical_patches.empty() && !target.operands.empty()) {
            target.logical_patches.push_back({target.name, layout::dense_shape(target.shape)});
        }
    }
}

/// --also: the same tensors in another type. Ledger, notes and factors are the first's.
BoundModel in_other_type(const JobOutput& first, const JobOutput& output, const BoundModel& model) {
    BoundModel one{model.files, model.prepared, model.bound, {}, {}};
    one.bound.notes.clear();
    one.bound.factors.clear();
    if (output.dtype && output.dtype != first.dtype) {
        plan::write_as(one.bound.binding.targets, *output.dtype);
    }
    return one;
}

/// --also: tensors of another form, bound to what is stored as in a merge of their own.
BoundModel in_other_form(const Session& session, const BoundModel& model) {
    const JobOutput& output = session.output;
    BoundModel one{model.files, {}, {}, {}, {}};
    JobModel choice = model.prepared.choice;
    choice.output = output;
    choice.names = output.is_training() ? TensorNames::hub : choice.names;
    catalogue::Catalogue catalogue = *model.kept;
    one.prepared = prepare_for_fold(one.files, choice, catalogue);
    one.bound = bind_model(one.prepared, one.files, session.job, std::move(catalogue));
    return one;
}

/// What is found in this output only.
void report_output(const Session& session, const BoundModel& model, const BoundModel& first) {
    for (const std::string& note : model.bound.notes) {
        session.log.debug(session.output.directory.string() + ": " + note);
    }
    session.report.ledger = model.bound.binding.ledger;
    session.report.supplement = model.bound.binding.supplied;
    const auto warn_of = [&](const std::vector<Warning>& own, const std::vector<Warning>& known) {
        for (const Warning& warning : own) {
            if (std::ranges::count(known, warning.text, &Warning::text) == 0) {
                warn(session, warning);
            }
        }
    };
    warn_of(model.prepared.warnings, first.prepared.warnings);
    warn_of(model.bound.binding.warnings, first.bound.binding.warnings);
}

/// Binds the others to what was read for the first. `primary`: the first that is a model. `is_cut`:
/// training checkpoints are cut from the model's weights, else they are bound to what is stored.
std::vector<BoundModel> bound_for_all(const Outputs& outputs, std::size_t primary, bool is_cut,
                                      const Sources& read, BoundModel model) {
    const auto n_files = static_cast<std::uint32_t>(read.input.files.size());
    const bool is_first_cut = is_cut && outputs.front().output.is_training();
    std::vector<BoundModel> models;
    models.reserve(outputs.size());
    if (is_first_cut) {
        models.push_back(cut_from(model, outputs.front().output.form, read.like, n_files));
        models.front().bound.factors = model.bound.factors;
    } else {
        models.push_back(std::move(model));
    }
    const BoundModel& source = is_first_cut ? model : models.front();
    for (std::size_t at = 0; at < outputs.size(); ++at) {
        const JobOutput& output = outputs[at].output;
        const bool has_own_tensors = at == primary || output.is_training() || output.ggml();
        if (at > 0 && is_cut && output.is_training()) {
            models.push_back(cut_from(source, output.form, nullptr, n_files));
        } else if (at > 0) {
            models.push_back(has_own_tensors
                                 ? in_other_form(outputs[at], source)
                                 : in_other_type(outputs[primary].output, output, models[primary]));
        }
        if (at == primary && outputs.size() > 1) {
            add_own_patches(models[at].bound.binding.targets);
        }
    }
    models.front().kept.reset();
    return models;
}

/// A model for each output. Every tensor of a model is made of what is read for the first of them,
/// training checkpoints of what is read for each. Local.
std::vector<BoundModel> output_models(const Outputs& outputs, bool is_cut, const Sources& read,
                                      BoundModel model) {
    const auto first_model =
        std::ranges::find_if(outputs, [](const Session& one) { return !one.output.is_training(); });
    const auto primary = static_cast<std::size_t>(first_model - outputs.begin());
    std::vector<BoundModel> models =
        bound_for_all(outputs, primary, is_cut, read, std::move(model));
    std::vector<std::vector<plan::Target>*> others;
    for (std::size_t at = 0; at < outputs.size(); ++at) {
        BoundModel& one = models[at];
        Bound& bound = one.bound;
        if (one.prepared.training != nullptr) {
            bound.output = one.prepared.training->format(
                bound.binding, bound.optimizer ? &*bound.optimizer : nullptr);
        }
        quantise_bound(one.prepared, one.files, outputs[at].output.quantise,
                       outputs[at].job.model.quantise_ignore, bound);
        if (at > 0) {
            report_output(outputs[at], one, models.front());
        }
        if (at > primary && one.prepared.training == nullptr) {
            others.push_back(&bound.binding.targets);
        }
    }
    if (!others.empty()) {
        plan::share_strips(models[primary].bound.binding.targets, others);
    }
    return models;
}

/// Training checkpoints hold no codes: the weights become bf16, unless a model beside them keeps
/// the codes, since nothing else is asked for it.
std::optional<DType> type_beside_codes(const Outputs& outputs) {
    const auto is_training = [](const Session& one) { return one.output.is_training(); };
    if (std::ranges::none_of(outputs, is_training)) {
        return std::nullopt;
    }
    if (!is_training(outputs.front())) {
        throw Error(ErrorCode::unsupported,
                    "the model is stored as codes and scales, which it keeps and training "
                    "checkpoints do not hold",
                    "give --dtype bf16");
    }
    return DType::bf16;
}

void report_binding(Session& session, const BoundModel& model) {
    for (const auto* notes : {&model.prepared.notes, &model.bound.notes}) {
        std::ranges::for_each(*notes, [&](const std::string& note) { session.log.debug(note); });
    }
    for (const std::string& note : model.bound.told) {
        session.log.info("note: " + note);
    }
    if (!model.bound.unheeded.empty()) {
        session.log.info("note: " + model.bound.unheeded);
    }
    session.run.recipe = model.prepared.recipe->name;
    session.run.verification = model.prepared.verification;
    warn(session, model.prepared.warnings);
    warn(session, model.bound.binding.warnings);
    session.report.ledger = model.bound.binding.ledger;
    session.report.supplement = model.bound.binding.supplied;
    session.watch.lap("bind");
}

}  // namespace

std::vector<BoundModel> bind_outputs(const Outputs& outputs, Purpose sink, Sources& read,
                                     const plan::PlanChoice& choice) {
    Session session = outputs.front();
    catalogue::Catalogue& catalogue = read.weights().catalogue;
    JobModel wanted = model_choice(session.job, session.output, sink);
    const bool is_cut = is_cut_from_model(session.job, catalogue);
    wanted.like = read.like;
    wanted.supplied = read.supplement;
    if (!wanted.output.dtype && plan::holds_encoded(catalogue)) {
        mpi::collectively(session.comm, [&] { wanted.output.dtype = type_beside_codes(outputs); });
    }
    if (is_cut && session.output.is_training()) {
        wanted.output.form.clear();
    }
    BoundModel model = bind_checkpoint(session, read.input, *std::move(read.files),
                                       std::move(catalogue), wanted, choice);
    model = mix_in(session, read, std::move(model), choice);
    std::vector<BoundModel> models = mpi::collectively_get(
        session.comm, [&] { return output_models(outputs, is_cut, read, std::move(model)); });
    for (std::size_t at = 1; at < models.size(); ++at) {
        read.input.sums->use_records_of(models[at].bound.binding.targets);
    }
    report_binding(session, models.front());
    return models;
}

}  // namespace shardweld::app
