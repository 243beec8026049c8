// The commands test and diff: what a merge would write, or a model directory, against another model
// directory. Knows the order of the steps; each step is another module's.

#include "app/compare/code_quality.hpp"
#include "app/compare/comparison.hpp"
#include "app/compare/comparison_output.hpp"
#include "app/compare/reference_model.hpp"
#include "app/merge/main_path.hpp"
#include "app/merge/moving.hpp"
#include "app/merge/preflight.hpp"
#include "app/report/reported.hpp"
#include "app/report/session.hpp"
#include "app/runtime/scratch.hpp"
#include "catalogue/catalogue.hpp"
#include "execute/comparer.hpp"
#include "plan/plan.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

/// Puts what was found of codes beside their tensors.
void add_quality(Outcome& outcome, const std::vector<execute::Pair>& pairs,
                 const std::vector<std::size_t>& tensor_of_pair, const plan::Plan& plan,
                 const std::map<std::uint32_t, numeric::Quality>& found) {
    for (const auto& [pair, quality] : found) {
        ComparedTensor& row = outcome.tensors[tensor_of_pair[pair]];
        row.quality = quality;
        row.encoding = facts_of(plan.targets[pairs[pair].target].quantised->encoding).name;
    }
}

/// Collective. Moves the tensors of a plan, and holds them against the reference's.
Outcome compare(Session& session, Planned& planned, std::optional<bool> ties,
                const ModelDirectory& reference) {
    const Options& options = session.options;
    // Factors of an adapter and scales of codes are gathered in a file before they are used.
    std::optional<Scratch> scratch;
    if (planned.factors) {
        scratch.emplace(session.comm);
    }
    Matching matching = match(planned.plan.targets, reference.tensors, {ties, reference.ties()});
    reference.want(matching.pairs);
    execute::Comparer comparer(
        planned.plan, {source_of(session, reference.input), &reference.tensors}, matching.pairs,
        {options.rtol, options.atol}, planned.choice.memory_limit);
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
    (void)move_tensors({{session, planned, place, std::move(run)}});
    (void)check_what_was_read(session, reference.input, {});
    const auto pairs = matching.pairs;
    const auto tensor_of_pair = matching.tensor_of_pair;
    Outcome outcome =
        judge(std::move(matching), comparer.gather(session.comm), options.strict_dtype);
    add_quality(outcome, pairs, tensor_of_pair, planned.plan,
                comparer.gather_quality(session.comm));
    return outcome;
}

/// Collective. Prints; Error(differs) when the models differ.
ErrorCode tell(Session& session, const std::string& command, Outcome outcome,
               std::vector<ConfigDifference> config, std::ostream& out) {
    const Options& options = session.options;
    const std::string difference = difference_text(outcome);
    const ComparedModels models{command,
                                options.local_dir.string(),
                                options.reference.string(),
                                {options.rtol, options.atol},
                                options.strict_dtype,
                                std::move(outcome),
                                std::move(config)};
    print(session.comm, out,
          [&] { return options.json ? comparison_json(models) : comparison_text(models); });
    if (!difference.empty()) {
        throw Error(ErrorCode::differs, difference);
    }
    return ErrorCode::ok;
}

/// One half of the memory assembles, the other reads a model to compare with.
Terms comparison_terms() {
    return {Destination::comparison, true};
}

/// Collective. A model, its codes read as weights, against the weights of --base.
CodedModel held_against_base(Session& session, const fs::path& directory) {
    Options options = session.options;
    options.local_dir = directory;
    options.backend = "hf";
    options.dtype = DType::bf16;
    options.base.reset();
    Unreported run(session.comm, options, session.log, session.log);
    const ModelDirectory base = read_model_directory(run.session(), *session.options.base);
    Planned planned = make_ready(run.session(), comparison_terms(),
                                 find_sources(run.session(), comparison_terms()));
    return {directory.string(), compare(run.session(), planned, planned.ties(), base)};
}

/// Collective. Prints how near codes are to the weights of --base; Error(differs) when a model has
/// other tensors.
ErrorCode tell_quality(Session& session, std::ostream& out) {
    const Options& options = session.options;
    std::vector<CodedModel> models;
    models.push_back(held_against_base(session, options.local_dir));
    if (!options.reference.empty()) {
        models.push_back(held_against_base(session, options.reference));
    }
    const std::string base = options.base->string();
    print(session.comm, out,
          [&] { return options.json ? quality_json(base, models) : quality_text(base, models); });
    for (const CodedModel& model : models) {
        require_same_tensors(model, base);
    }
    return ErrorCode::ok;
}

}  // namespace

int test(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    return run_reported(comm, options, log, "test", [&](Session& session) {
        check_report(comm, options, {});
        Sources sources = find_sources(session, comparison_terms());
        const ModelDirectory reference = read_model_directory(session, options.reference);
        Planned planned;
        Preflight preflight;
        preflight.check([&] {
            planned = make_ready(session, comparison_terms(), std::move(sources));
            report_plan(session, planned);
        });
        preflight.add(strict_problems(session));
        preflight.require_none();
        check_crcs(session, planned, {});
        Outcome outcome = compare(session, planned, planned.ties(), reference);
        return tell(session, "test", std::move(outcome), {}, out);
    });
}

int diff(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    return run_reported(comm, options, log, "diff", [&](Session& session) {
        if (options.base) {
            return tell_quality(session, out);
        }
        ModelDirectory tested = read_model_directory(session, options.local_dir);
        const ModelDirectory reference = read_model_directory(session, options.reference);
        const std::optional<bool> ties = tested.ties();
        Planned planned = make_ready_as_stored(session, comparison_terms(), std::move(tested.input),
                                               targets_of(tested.tensors));
        Outcome outcome = compare(session, planned, ties, reference);
        return tell(session, "diff", std::move(outcome),
                    config_differences(tested.config_text, reference.config_text), out);
    });
}

}  // namespace shardweld::app
