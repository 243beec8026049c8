// The commands test and diff: what a merge would write, or a model directory, against another model
// directory. Knows the order of the steps; each step is another module's.

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/execute/comparer.hpp"
#include "shardweld/plan/plan.hpp"

#include "../compare/comparison.hpp"
#include "../compare/comparison_output.hpp"
#include "../compare/reference_model.hpp"
#include "../merge/main_path.hpp"
#include "../merge/moving.hpp"
#include "../merge/preflight.hpp"
#include "../report/reported.hpp"
#include "../report/session.hpp"
#include "../runtime/scratch.hpp"
#include "commands.hpp"

namespace shardweld::app {

namespace {

/// Collective. Moves the tensors of a plan, and holds them against the reference's. `directory`: of
/// a fold's factors.
Outcome compare(Session& session, Planned& planned, std::optional<bool> ties,
                const ModelDirectory& reference, const fs::path& directory) {
    const Options& options = session.options;
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
    const io::Directory place(directory);
    (void)move_tensors({{session, planned, place, std::move(run)}});
    (void)check_what_was_read(session, reference.input, {});
    return judge(std::move(matching), comparer.gather(session.comm), options.strict_dtype);
}

/// Collective. Prints; Error(differs) when the models differ.
ErrorCode tell(Session& session, const std::string& command, Outcome outcome,
               std::vector<ConfigDifference> config) {
    const Options& options = session.options;
    const std::string difference = difference_text(outcome);
    const ComparedModels models{command,
                                options.local_dir.string(),
                                options.reference.string(),
                                {options.rtol, options.atol},
                                options.strict_dtype,
                                std::move(outcome),
                                std::move(config)};
    print(session.comm,
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

}  // namespace

int test(mpi::Comm& comm, const Options& options, Log& log) {
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
        // The factors of an adapter are gathered in a file before they are folded.
        std::optional<Scratch> scratch;
        if (options.lora == Lora::fold) {
            scratch.emplace(comm);
        }
        Outcome outcome = compare(session, planned, planned.ties(), reference,
                                  scratch ? scratch->path() : fs::path());
        return tell(session, "test", std::move(outcome), {});
    });
}

int diff(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "diff", [&](Session& session) {
        ModelDirectory tested = read_model_directory(session, options.local_dir);
        const ModelDirectory reference = read_model_directory(session, options.reference);
        const std::optional<bool> ties = tested.ties();
        Planned planned = make_ready_as_stored(session, comparison_terms(), std::move(tested.input),
                                               targets_of(tested.tensors));
        Outcome outcome = compare(session, planned, ties, reference, {});
        return tell(session, "diff", std::move(outcome),
                    config_differences(tested.config_text, reference.config_text));
    });
}

}  // namespace shardweld::app
