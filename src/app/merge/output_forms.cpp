#include "output_forms.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "shardweld/core/text.hpp"
#include "shardweld/models/written_form.hpp"
#include "shardweld/outputs/gguf.hpp"
#include "shardweld/plan/followed.hpp"
#include "shardweld/plan/quantise.hpp"

#include "../cli/selection.hpp"

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

/// GGUF files of this model; adds the tensors that only they have.
std::shared_ptr<const outputs::Format> gguf_output(const PreparedModel& prepared,
                                                   const GgufTokenizer& tokenizer,
                                                   std::vector<plan::Target>& targets) {
    constexpr std::int64_t kQuantisationVersion = 2;  // ggml.h, GGML_QNT_VERSION
    const models::Dialect& form = *prepared.form;
    Metadata metadata = models::metadata_of(form, *prepared.symbols, prepared.config);
    metadata.push_back(MetadataField::u32("general.quantization_version", kQuantisationVersion));
    metadata.insert(metadata.end(), tokenizer.keys.begin(), tokenizer.keys.end());
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
    return outputs::gguf_format_of(*prepared.choice.ggml, std::move(metadata));
}

/// --quantize: the weights that are bound become codes and scales. `strip_rows` as in
/// plan::quantise.
void quantise_bound(const PreparedModel& prepared, const ModelFiles& files, const Options& options,
                    Index strip_rows, Bound& bound) {
    if (!options.quantise) {
        return;
    }
    const Selection left{std::nullopt, options.quantise_ignore};
    const auto is_ignored = [is_taken = selects(left)](const std::string& name) {
        return !is_taken(name);
    };
    std::vector<plan::Target>& targets = bound.binding.targets;
    bound.quantisation =
        prepared.form == nullptr
            ? plan::quantise(targets, prepared.model(), *options.quantise, is_ignored, strip_rows)
            : plan::quantise_ggml(targets, prepared.model(), *options.quantise, is_ignored);
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

/// What rows of strips are a multiple of: tiles of all outputs.
Index strip_rows_of(Session& session) {
    Index rows = 1;
    for (std::size_t at = 0; at <= session.also.size(); ++at) {
        const auto& encoding = output_session(session, at).options.quantise;
        rows = std::max(rows, encoding ? facts_of(*encoding).tile_rows : 1);
    }
    return rows;
}

/// --also: the same tensors in the other forms. Their ledger, notes and factors are the first's.
std::vector<BoundModel> other_outputs(const Session& session, const BoundModel& model) {
    std::vector<BoundModel> others;
    for (const Session* const other : session.also) {
        BoundModel& one = others.emplace_back(model);
        one.trace.clear();
        one.bound.notes.clear();
        one.bound.factors.clear();
        if (other->options.dtype && other->options.dtype != session.options.dtype) {
            plan::write_as(one.bound.binding.targets, *other->options.dtype);
        }
    }
    return others;
}

}  // namespace

std::vector<BoundModel> finish_outputs(Session& session, BoundModel& model) {
    std::vector<BoundModel> others = other_outputs(session, model);
    const Index rows = strip_rows_of(session);
    quantise_bound(model.prepared, model.files, session.options, rows, model.bound);
    for (std::size_t i = 0; i < others.size(); ++i) {
        Bound& bound = others[i].bound;
        quantise_bound(others[i].prepared, others[i].files, session.also[i]->options, rows, bound);
        plan::lead(model.bound.binding.targets, bound.binding.targets);
        for (const std::string& note : bound.notes) {
            session.log.info(session.also[i]->options.target_dir.string() + ": " + note);
        }
    }
    return others;
}

}  // namespace shardweld::app
