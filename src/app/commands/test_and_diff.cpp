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
#include "app/merge/main_path.hpp"
#include "app/merge/moving.hpp"
#include "app/merge/preflight.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/report/session.hpp"
#include "app/runtime/scratch.hpp"
#include "catalogue/catalogue.hpp"
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
    ComparisonResult outcome;
};

using nlohmann::ordered_json;

constexpr int kQualitySchema = 1;

struct CodedRow {
    const ComparedTensor* tensor;
    const CodedModel* model;
};

std::vector<CodedRow> worst_first(const std::vector<CodedModel>& models) {
    std::vector<CodedRow> rows;
    for (const CodedModel& model : models) {
        for (const ComparedTensor& tensor : model.outcome.tensors) {
            if (tensor.quality) {
                rows.push_back({&tensor, &model});
            }
        }
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const CodedRow& row) {
        return row.tensor->quality->relative_error();
    });
    return rows;
}

std::vector<std::string> cells_of(const CodedRow& row) {
    const numeric::Quality& quality = *row.tensor->quality;
    return {printable(row.tensor->name),
            row.model->directory,
            row.tensor->encoding,
            number_text(quality.relative_error()),
            std::to_string(quality.n_saturated),
            std::to_string(quality.n_zeroed),
            shape_text(std::array{quality.worst.row, quality.worst.column}),
            number_text(quality.worst.error)};
}

std::string worst_table(const std::vector<CodedModel>& models, bool is_each_shown) {
    std::vector<std::vector<std::string>> cells = {{"tensor", "model", "encoding", "relative error",
                                                    "saturated", "zeroed", "worst tile at",
                                                    "its error"}};
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

/// All codes of a model together, and what is no code.
struct CodedSums {
    explicit CodedSums(const CodedModel& model) {
        for (const ComparedTensor& tensor : model.outcome.tensors) {
            if (tensor.quality) {
                ++n_coded;
                all.add(*tensor.quality);
            } else if (tensor.found.n_elements > 0) {
                ++n_others;
                n_same_bits += tensor.found.n_unequal_bits == 0 ? 1U : 0U;
            }
        }
    }

    std::size_t n_coded = 0;
    std::size_t n_others = 0;
    std::size_t n_same_bits = 0;
    numeric::Quality all;
};

std::string sums_line(const CodedModel& model) {
    const CodedSums sums(model);
    return model.directory + ": " + counted(sums.n_coded, "quantised tensor") +
           ", relative error " + number_text(sums.all.relative_error()) + ", " +
           std::to_string(sums.all.n_saturated) + " values saturated, " +
           std::to_string(sums.all.n_zeroed) + " read as zero; " +
           std::to_string(sums.n_same_bits) + " of " + counted(sums.n_others, "other tensor") +
           " equal bit for bit\n";
}

bool is_elsewhere(const ComparedTensor& tensor) {
    return tensor.found.n_elements == 0 && is_difference(tensor.verdict);
}

ordered_json model_json(const CodedModel& model) {
    const CodedSums sums(model);
    ordered_json json = {
        {"directory", model.directory},      {"relative_error", sums.all.relative_error()},
        {"saturated", sums.all.n_saturated}, {"zeroed", sums.all.n_zeroed},
        {"n_others", sums.n_others},         {"n_same_bits", sums.n_same_bits},
        {"tensors", ordered_json::array()},  {"not_compared", ordered_json::array()}};
    for (const ComparedTensor& tensor : model.outcome.tensors) {
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
        for (const std::string& note : model.outcome.notes) {
            text += "note: " + note + "\n";
        }
    }
    for (const CodedModel& model : models) {
        text += sums_line(model);
    }
    return text;
}

std::string quality_json(const std::string& base, const std::vector<CodedModel>& models) {
    ordered_json json = {{"schema", kQualitySchema},
                         {"command", "diff"},
                         {"base", base},
                         {"models", ordered_json::array()}};
    for (const CodedModel& model : models) {
        json["models"].push_back(model_json(model));
    }
    return json_text(json);
}

/// Error(differs) where one of both has a tensor that the other lacks or has in another shape.
void require_same_tensors(const CodedModel& model, const std::string& base) {
    std::vector<std::string> names;
    for (const ComparedTensor& tensor : model.outcome.tensors) {
        if (is_elsewhere(tensor)) {
            names.push_back(printable(tensor.name) + " (" + std::string(name_of(tensor.verdict)) +
                            ")");
        }
    }
    if (!names.empty()) {
        throw Error(ErrorCode::differs,
                    model.directory + " and " + base + " have other tensors: " + listed(names),
                    "give the model that was quantised as --base");
    }
}

/// Puts what was found of codes beside their tensors.
void add_quality(ComparisonResult& outcome, const std::vector<execute::ComparedPair>& pairs,
                 const std::vector<std::size_t>& tensor_of_pair, const plan::Plan& plan,
                 const std::map<std::uint32_t, numeric::Quality>& found) {
    for (const auto& [pair, quality] : found) {
        ComparedTensor& row = outcome.tensors[tensor_of_pair[pair]];
        row.quality = quality;
        row.encoding = facts_of(plan.target_of(pairs[pair].written).decode->encoding).name;
    }
}

/// Collective. Moves the tensors of a plan, and holds them against the reference's.
ComparisonResult compare(Planned& planned, std::optional<bool> ties,
                         const ModelDirectory& reference) {
    const Output& output = planned.first();
    Session session = output.session;
    const Job& job = session.job;
    // Factors of an adapter and scales of codes are gathered in a file before they are used.
    std::optional<Scratch> scratch;
    if (planned.factors) {
        scratch.emplace(session.comm);
    }
    Matching matching = match(output.plan.targets, reference.tensors, {ties, reference.ties()});
    reference.use_records_of(matching.pairs);
    execute::Comparer comparer(
        output.plan, {source_of(session, reference.input), &reference.tensors}, matching.pairs,
        {job.run.rtol, job.run.atol}, output.choice.memory_limit);
    execute::RunOptions run;
    run.write = false;
    run.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
        comparer.add(slice, bytes);
    };
    run.on_codes = [&](const plan::Slice& slice, const numeric::QuantisedRows& rows,
                       std::span<const std::byte> codes, std::span<const std::byte> scales) {
        comparer.add_codes(slice, rows, codes, scales);
    };
    const io::Directory place(scratch ? scratch->path() : fs::path());
    (void)move_tensors(planned, {{place, std::move(run)}});
    (void)check_what_was_read(session, reference.input, {});
    const auto pairs = matching.pairs;
    const auto tensor_of_pair = matching.tensor_of_pair;
    ComparisonResult outcome =
        comparison_result(std::move(matching), comparer.gather(session.comm), job.run.strict_dtype);
    add_quality(outcome, pairs, tensor_of_pair, output.plan, comparer.gather_quality(session.comm));
    return outcome;
}

/// Collective. Prints; Error(differs) when the models differ.
ErrorCode print_comparison(Session& session, const std::string& command, ComparisonResult outcome,
                           std::vector<ConfigDifference> config, std::ostream& out) {
    const Job& job = session.job;
    const std::string difference = difference_text(outcome);
    const ComparedModels models{command,
                                job.inputs.front().directory.string(),
                                job.run.reference.string(),
                                {job.run.rtol, job.run.atol},
                                job.run.strict_dtype,
                                std::move(outcome),
                                std::move(config),
                                job.run.log_level == LogLevel::debug};
    print(session.comm, out,
          [&] { return job.run.json ? comparison_json(models) : comparison_text(models); });
    if (!difference.empty()) {
        throw Error(ErrorCode::differs, difference);
    }
    return ErrorCode::ok;
}

/// One half of the memory assembles, the other reads a model to compare with.
PlanRequest comparison_request(formats::JobInput checkpoint, const std::optional<fs::path>& base) {
    return {std::move(checkpoint), base, Purpose::comparison, true};
}

/// Collective. A model, its codes read as weights, against the weights of --base.
CodedModel held_against_base(Session& session, const fs::path& directory) {
    const Run run(session.comm, session.job, {{{}, {}, DType::bf16}}, session.log, session.log);
    Session own = run.session();
    formats::JobInput model = session.job.inputs.front();
    model.directory = directory;
    model.backend = "hf";
    const PlanRequest request = comparison_request(std::move(model), {});
    const ModelDirectory base = read_model_directory(own, *session.job.model.base);
    Planned planned = plan_outputs(run.outputs(), request, find_sources(own, request));
    return {directory.string(), compare(planned, planned.first().ties(), base)};
}

/// Collective. Prints how near codes are to the weights of --base; Error(differs) when a model has
/// other tensors.
ErrorCode print_quality(Session& session, std::ostream& out) {
    const Job& job = session.job;
    std::vector<CodedModel> models;
    models.push_back(held_against_base(session, job.inputs.front().directory));
    if (!job.run.reference.empty()) {
        models.push_back(held_against_base(session, job.run.reference));
    }
    const std::string base = job.model.base->string();
    print(session.comm, out, [&] {
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
    const auto body = [&](Outputs outputs) {
        Session& session = outputs.front();
        check_report(comm, job.outputs.front().report, {});
        const PlanRequest request = comparison_request(job.inputs.front(), job.model.base);
        Sources sources = find_sources(session, request);
        const ModelDirectory reference = read_model_directory(session, job.run.reference);
        Planned planned;
        Preflight preflight;
        preflight.check([&] {
            planned = plan_outputs(outputs, request, std::move(sources));
            report_plans(planned);
        });
        preflight.add(strict_problems(session));
        preflight.require_none();
        check_crcs(session, planned, {});
        ComparisonResult outcome = compare(planned, planned.first().ties(), reference);
        return print_comparison(session, "test", std::move(outcome), {}, out);
    };
    return run_reported(comm, job, log, body);
}

int diff(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    const auto body = [&](Outputs outputs) {
        Session& session = outputs.front();
        if (job.model.base) {
            return print_quality(session, out);
        }
        ModelDirectory tested = read_model_directory(session, job.inputs.front().directory);
        const ModelDirectory reference = read_model_directory(session, job.run.reference);
        const std::optional<bool> ties = tested.ties();
        Planned planned = plan_as_stored(session, comparison_request({}, {}),
                                         std::move(tested.input), targets_of(tested.tensors));
        ComparisonResult outcome = compare(planned, ties, reference);
        return print_comparison(session, "diff", std::move(outcome),
                                config_differences(tested.config_text, reference.config_text), out);
    };
    return run_reported(comm, job, log, body);
}

}  // namespace shardweld::app
