#include "compare.hpp"

#include <iostream>

#include "shardweld/execute/comparison.hpp"

#include "../compare/comparison.hpp"
#include "../compare/comparison_output.hpp"
#include "../compare/model_directory.hpp"
#include "../merge/main_path.hpp"
#include "../merge/moving.hpp"
#include "../merge/preflight.hpp"
#include "../report/report_place.hpp"
#include "../report/reported.hpp"
#include "../runtime/resources.hpp"
#include "../runtime/scratch.hpp"

namespace shardweld::app {

namespace {

/// A comparison from its pairs to its result.
class Comparing {
  public:
    Comparing(mpi::Comm& comm, const Options& options, const ModelDirectory& reference,
              std::shared_ptr<io::Throttle> throttle)
        : comm_(comm), options_(options), reference_(reference), throttle_(std::move(throttle)) {}

    /// Collective. Calls `execute` with what is to be done with finished slices.
    Outcome run(const plan::Plan& plan, std::optional<bool> ties, Bytes memory,
                const std::function<void(execute::Options)>& execute) {
        Matching matching = match(plan.targets, reference_.tensors(), {ties, reference_.ties()});
        reference_.want(matching.pairs);
        const execute::Source source = reference_.source(options_.max_open, throttle_);
        execute::Comparer comparer(plan, {source, &reference_.tensors()}, matching.pairs,
                                   {options_.rtol, options_.atol}, memory);
        execute::Options run;
        run.write = false;
        run.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
            comparer.add(slice, bytes);
        };
        execute(run);
        reference_.check_what_was_read(comm_, source);
        return judge(std::move(matching), comparer.gather(comm_), options_.strict_dtype);
    }

    /// Collective. Prints; Error(differs) when the models differ.
    ErrorCode tell(const std::string& command, Outcome outcome,
                   std::vector<ConfigDifference> config) {
        const std::string difference = difference_text(outcome);
        const ComparedModels models{command,
                                    options_.local_dir.string(),
                                    options_.reference.string(),
                                    {options_.rtol, options_.atol},
                                    options_.strict_dtype,
                                    std::move(outcome),
                                    std::move(config)};
        mpi::collectively(comm_, [&] {
            if (comm_.rank() == 0) {
                std::cout << (options_.json ? comparison_json(models) : comparison_text(models))
                          << std::flush;
                if (!std::cout) {
                    throw Error(ErrorCode::io, "cannot write the result to standard output");
                }
            }
        });
        if (!difference.empty()) {
            throw Error(ErrorCode::differs, difference);
        }
        return ErrorCode::ok;
    }

  private:
    mpi::Comm& comm_;
    const Options& options_;
    const ModelDirectory& reference_;
    std::shared_ptr<io::Throttle> throttle_;
};

plan::Plan plan_of(mpi::Comm& comm, const ModelDirectory& model, Bytes memory) {
    plan::Choice choice;
    choice.memory_limit = memory;
    return mpi::collectively_get(comm, [&] {
        return plan::make_plan(targets_of(model.tensors()), model.survey.catalogue.files,
                               model.survey.visibility, choice);
    });
}

}  // namespace

int test(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "test", [&](Session& session) {
        check_report(comm, options, {});
        const ModelDirectory reference =
            read_model_directory(comm, options.reference, options.check_crc);
        Planned planned;
        Preflight preflight;
        preflight.check([&] {
            planned = make_ready(session, {Sink::comparison, true});
            report_plan(session, planned);
        });
        preflight.add(strict_problems(session));
        preflight.require_none();
        report_plan(session, planned);
        check_crcs(session, planned, {});
        Comparing comparing(comm, options, reference, planned.input.throttle);
        // The factors of an adapter are gathered in a file before they are folded.
        std::optional<Scratch> scratch;
        if (options.lora == Lora::fold) {
            scratch.emplace(comm);
        }
        Outcome outcome = comparing.run(
            planned.plan, planned.ties(), planned.choice.memory_limit, [&](execute::Options run) {
                (void)move_tensors(session, planned, scratch ? scratch->path() : fs::path(),
                                   std::move(run));
            });
        return comparing.tell("test", std::move(outcome), {});
    });
}

int diff(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "diff", [&](Session&) {
        const ModelDirectory tested =
            read_model_directory(comm, options.local_dir, options.check_crc);
        const ModelDirectory reference =
            read_model_directory(comm, options.reference, options.check_crc);
        const Bytes memory = half_memory(comm, options.memory_limit);
        const plan::Plan plan = plan_of(comm, tested, memory);
        const execute::Source source = tested.source(options.max_open, throttle_of(options, comm));
        if (tested.sums) {
            tested.sums->want(plan.targets);
        }
        Comparing comparing(comm, options, reference, source.throttle);
        Outcome outcome =
            comparing.run(plan, tested.ties(), memory, [&](const execute::Options& run) {
                (void)execute::run(comm, plan, source, fs::path(), run);
                tested.check_what_was_read(comm, source);
            });
        return comparing.tell("diff", std::move(outcome),
                              config_differences(tested.config_text, reference.config_text));
    });
}

}  // namespace shardweld::app
