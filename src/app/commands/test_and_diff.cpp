// The commands test and diff: what a merge would write, or a model directory, against another model
// directory.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/compare/comparison.hpp"
#include "app/compare/model_directory.hpp"
#include "app/merge/merge.hpp"
#include "app/merge/move_tensors.hpp"
#include "app/merge/plan_outputs.hpp"
#include "app/merge/preflight.hpp"
#include "app/merge/sources.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/report/run.hpp"
#include "app/runtime/scratch.hpp"
#include "core/text.hpp"
#include "execute/comparer.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

/// A model and what was found of it beside the base, which is the reference.
struct CodedModel {
    std::string directory;
    ComparedModels found;
    std::size_t n_coded = 0;  ///< tensors
    numeric::Quality all{};   ///< of all codes together
    std::size_t n_others = 0;
    std::size_t n_same_bits = 0;  ///< of these
};

constexpr int kQualitySchema = 1;

using CodedRow = std::pair<const ComparedTensor*, const CodedModel*>;

std::vector<CodedRow> worst_first(const std::vector<CodedModel>& models) {
    std::vector<CodedRow> rows;
    for (const CodedModel& model : models) {
        for (const ComparedTensor& tensor : model.found.tensors) {
            if (tensor.quality) {
                rows.emplace_back(&tensor, &model);
            }
        }
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const CodedRow& row) {
        return row.first->quality->relative_error();
    });
    return rows;
}

std::vector<std::string> cells_of(const CodedRow& row) {
    const numeric::Quality& quality = *row.first->quality;
    return {printable(row.first->name),
            row.second->directory,
            row.first->encoding,
            number_text(quality.relative_error()),
            std::to_string(quality.n_saturated),
            std::to_string(quality.n_zeroed),
            shape_text(std::array{quality.worst.row, quality.worst.column}),
            number_text(quality.worst.error)};
}

std::string worst_table(const std::vector<CodedModel>& models, bool is_each_shown) {
    Cells cells = {{"tensor", "model", "encoding", "relative error", "saturated", "zeroed",
                    "worst tile at", "its error"}};
    const std::vector<CodedRow> rows = worst_first(models);
    const std::size_t n_shown = is_each_shown ? rows.size() : std::min(rows.size(), kMostRows);
    for (std::size_t at = 0; at < n_shown; ++at) {
        cells.push_back(cells_of(rows[at]));
    }
    if (rows.empty()) {
        return "";
    }
    return table(std::vector<Align>(cells.front().size(), Align::left), cells) +
           more_text(rows.size() - n_shown) + "\n";
}

std::string sums_line(const CodedModel& model) {
    return model.directory + ": " + counted(model.n_coded, "quantised tensor") +
           ", relative error " + number_text(model.all.relative_error()) + ", " +
           std::to_string(model.all.n_saturated) + " values saturated, " +
           std::to_string(model.all.n_zeroed) + " read as zero; " +
           std::to_string(model.n_same_bits) + " of " + counted(model.n_others, "other tensor") +
           " equal bit for bit\n";
}

bool is_elsewhere(const ComparedTensor& tensor) {
    return tensor.found.n_elements == 0 && is_difference(tensor.verdict);
}

ordered_json model_json(const CodedModel& model) {
    ordered_json json = {
        {"directory", model.directory},       {"relative_error", model.all.relative_error()},
        {"saturated", model.all.n_saturated}, {"zeroed", model.all.n_zeroed},
        {"n_others", model.n_others},         {"n_same_bits", model.n_same_bits},
        {"tensors", ordered_json::array()},   {"not_compared", ordered_json::array()}};
    for (const ComparedTensor& tensor : model.found.tensors) {
        if (tensor.quality) {
            json["tensors"].push_back(
                {{"name", tensor.name}, {"quantised", json_of(*tensor.quality, tensor.encoding)}});
        } else if (is_elsewhere(tensor)) {
            json["not_compared"].push_back(
                {{"name", tensor.name}, {"why", std::string(name_of(tensor.verdict))}});
        }
    }
    return json;
}

/// The worst tensors first.
std::string quality_text(const std::string& base, const std::vector<CodedModel>& models,
                         bool is_each_shown) {
    std::string text = "base  " + base + "\n\n" + worst_table(models, is_each_shown);
    for (const CodedModel& model : models) {
        for (const std::string& note : model.found.notes) {
            text += "note: " + note + "\n";
        }
    }
    for (const CodedModel& model : models) {
        text += sums_line(model);
    }
    return text;
}

std::string quality_json(const std::string& base, const std::vector<CodedModel>& models) {
    ordered_json json = {
        {"schema", kQualitySchema}, {"ok", true},   {"dir", models.front().directory},
        {"command", "diff"},        {"base", base}, {"models", collect_list(models, model_json)}};
    return json_text(json);
}

/// Error(differs) where one of both has a tensor that the other lacks or has in another shape.
void require_same_tensors(const CodedModel& model, const std::string& base) {
    std::vector<std::string> names = collect_list(
        model.found.tensors,
        [&](const ComparedTensor& tensor) {
            return printable(tensor.name) + " (" + std::string(name_of(tensor.verdict)) + ")";
        },
        [&](const ComparedTensor& tensor) { return is_elsewhere(tensor); });
    if (!names.empty()) {
        throw Error(ErrorCode::differs,
                    model.directory + " and " + base + " have other tensors: " + listed(names),
                    "give the model that was quantised as --base");
    }
}

/// Puts what was found of codes beside their tensors.
void add_quality(ComparedModels& models, const plan::Plan& plan,
                 const std::map<std::uint32_t, numeric::Quality>& found) {
    for (const auto& [pair, quality] : found) {
        ComparedTensor& row = models.tensors[models.tensor_of_pair[pair]];
        row.quality = quality;
        row.encoding = facts_of(plan.target_of(models.pairs[pair].written).decode->encoding).name;
    }
}

/// Collective. Moves the tensors of a plan, and holds them against the reference's.
ComparedModels compare(const Run& run, Merge& merge, std::optional<bool> ties,
                       const ModelDirectory& reference) {
    Output& output = merge.first();
    const Job& job = run.job;
    // Factors of an adapter and scales of codes are gathered in a file before they are used.
    std::optional<Scratch> scratch;
    if (merge.factors) {
        scratch.emplace(run.comm);
        output.directory.emplace(scratch->path());
    }
    ComparedModels models = match(output.plan.targets, reference.tensors, ties, reference.ties());
    reference.use_records_of(models.pairs);
    execute::Comparer comparer(output.plan, source_of(run, reference.input), reference.tensors,
                               models.pairs, {job.run.rtol, job.run.atol},
                               merge.choice_for(job, merge.resources()).memory_limit);
    std::vector<execute::RunOptions> how(1);
    how.front().write = false;
    how.front().on_slice = [&](const plan::Slice& slice, ByteView bytes) {
        comparer.add(slice, bytes);
    };
    how.front().on_codes = [&](const plan::Slice& slice, const numeric::QuantisedRows& rows,
                               ByteView codes,
                               ByteView scales) { comparer.add_codes(slice, rows, codes, scales); };
    move_tensors(run, merge, std::move(how));
    (void)check_what_was_read(run, reference.input, {});
    judge(models, comparer.gather(run.comm), job.run.strict_dtype);
    add_quality(models, output.plan, comparer.gather_quality(run.comm));
    return models;
}

/// Collective. Prints; Error(differs) when the models differ.
ErrorCode print_comparison(const Run& run, const ComparedModels& models,
                           const std::vector<ConfigDifference>& config, std::ostream& out) {
    const Job& job = run.job;
    print(run.comm, out, [&] {
        return job.run.json ? comparison_json(job, models, config)
                            : comparison_text(job, models, config);
    });
    if (const std::string difference = difference_text(models); !difference.empty()) {
        throw Error(ErrorCode::differs, difference);
    }
    return ErrorCode::ok;
}

/// Collective. A model, its codes read as weights, against the weights of --base.
CodedModel held_against_base(const Run& whole, const fs::path& directory) {
    Job job = whole.job;
    job.inputs.resize(1);
    job.inputs.front().directory = directory;
    job.inputs.front().backend = "hf";
    job.outputs = {JobOutput{{}, {}, DType::bf16}};
    job.model.base.reset();
    const Run run = begin_run(whole.comm, job, whole.log);
    Merge merge = begin_comparison(run);
    const ModelDirectory base = read_model_directory(run, *whole.job.model.base);
    find_inputs(run, merge);
    plan_found(run, merge);
    CodedModel model{directory.string(), compare(run, merge, merge.first().ties(), base)};
    for (const ComparedTensor& tensor : model.found.tensors) {
        if (tensor.quality) {
            ++model.n_coded;
            model.all.add(*tensor.quality);
        } else if (tensor.found.n_elements > 0) {
            ++model.n_others;
            model.n_same_bits += tensor.found.n_unequal_bits == 0 ? 1U : 0U;
        }
    }
    return model;
}

/// Collective. Prints how near codes are to the weights of --base; Error(differs) when a model has
/// other tensors.
ErrorCode print_quality(const Run& run, std::ostream& out) {
    const Job& job = run.job;
    std::vector<CodedModel> models;
    models.push_back(held_against_base(run, job.inputs.front().directory));
    if (!job.run.reference.empty()) {
        models.push_back(held_against_base(run, job.run.reference));
    }
    const std::string base = job.model.base->string();
    print(run.comm, out, [&] {
        return job.run.json ? quality_json(base, models)
                            : quality_text(base, models, job.run.log_level == LogLevel::debug);
    });
    for (const CodedModel& model : models) {
        require_same_tensors(model, base);
    }
    return ErrorCode::ok;
}

}  // namespace

int test(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    const auto body = [&](const Run& run) {
        check_report(comm, job.outputs.front().report, {});
        Merge merge = begin_comparison(run);
        find_inputs(run, merge);
        const ModelDirectory reference = read_model_directory(run, job.run.reference);
        Preflight preflight;
        preflight.check([&] {
            plan_found(run, merge);
            report_plans(run, merge);
        });
        preflight.add(strict_problems(run, run.report->outputs.front()));
        preflight.require_none();
        check_crcs(run, merge, {});
        return print_comparison(run, compare(run, merge, merge.first().ties(), reference), {}, out);
    };
    return run_reported(comm, job, log, body);
}

int diff(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    const auto body = [&](const Run& run) {
        if (job.model.base) {
            return print_quality(run, out);
        }
        ModelDirectory tested = read_model_directory(run, job.inputs.front().directory);
        const ModelDirectory reference = read_model_directory(run, job.run.reference);
        const std::optional<bool> ties = tested.ties();
        Merge merge = begin_comparison(run);
        merge.input = std::move(tested.input);
        plan_as_stored(run, merge, targets_of(tested.tensors));
        return print_comparison(run, compare(run, merge, ties, reference),
                                config_differences(tested.config_text, reference.config_text), out);
    };
    return run_reported(comm, job, log, body);
}

}  // namespace shardweld::app
