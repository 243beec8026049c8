#include "print_plan.hpp"

#include <algorithm>
#include <utility>

#include "app/merge/preparation.hpp"
#include "app/runtime/resources.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"
#include "sbatch.hpp"

namespace shardweld::app {

namespace {

// Plans are for another machine: this one's limits say nothing.
constexpr Bytes kMemoryLimit = Bytes{256} << 20U;

/// A session that says nothing but how far it is: what it finds stands in its report, and is shown
/// with the plan.
class Rehearsal {
  public:
    Rehearsal(mpi::Comm& comm, const Options& options) : run_(comm, options, log_, log_) {}
    Rehearsal(mpi::Comm& comm, const Options& options, Log& shown)
        : run_(comm, options, log_, shown) {}
    Session& session() { return run_.session(); }

  private:
    std::ostream nowhere_{nullptr};
    Log log_{nowhere_, LogLevel::error, false};
    Unreported run_;
};

/// Ranks of a node: those of the job that is asked for, else as many as on the nodes that forecasts
/// suppose.
int ranks_on_node(const Options& options, const plan::Machine& machine) {
    return options.job ? (options.n_ranks + options.job->n_nodes - 1) / options.job->n_nodes
                       : std::min(options.n_ranks, machine.shared.ranks_per_node);
}

Planned plan_for(Session& session, const Options& options, Sources sources,
                 const std::optional<MeasuredRoof>& roof = {}) {
    const int on_node = ranks_on_node(options, supposed(roof).machine);
    const Crew crew{options.n_ranks, {kMemoryLimit, has_spare_core(on_node), on_node}};
    return make_ready(session, merge_terms(options, crew), std::move(sources));
}

PlannedMerge planned_merge(const Session& session, Planned planned, Figures figures) {
    const Report& report = session.report;
    PlannedMerge merge;
    merge.input = report.input_directory;
    merge.format = report.input_format;
    merge.recipe = planned.model.prepared.recipe->name;
    merge.memory = planned.forecast(session.comm);
    merge.files = std::move(planned.input.files);
    merge.plan = std::move(planned.plan);
    merge.figures = std::move(figures);
    merge.ledger = report.ledger;
    merge.warnings = report.warnings;
    merge.trace = std::move(planned.trace);
    merge.quotas = report.quotas;
    merge.n_reads = planned.input.n_reads;
    return merge;
}

PlannedMerge advised(const Session& session, const Options& options, Preparation ready) {
    Figures figures = figures_of(ready.planned.plan);
    const Basis basis{supposed(ready.roof), session.comm};
    const double metadata_s = metadata_seconds(ready.planned, options.n_ranks,
                                               ready.planned.resources.ranks_on_node, basis);
    std::optional<Advice> advice;
    if (!options.job && !options.lists_inputs) {
        advice = advise(ready.planned, figures.traffic, basis);
    }
    PlannedMerge merge = planned_merge(session, std::move(ready.planned), std::move(figures));
    merge.metadata_s = metadata_s;
    merge.advice = std::move(advice);
    merge.words = options.merge_words;
    return merge;
}

void print_planned(const PlannedMerge& merge, const Options& options, std::ostream& out, Log& log) {
    for (const plan::Warning& warning : merge.warnings) {
        log.warning((warning.tensor.empty() ? "" : printable(warning.tensor) + ": ") +
                    warning.text);
    }
    for (const std::string& line : merge.trace) {
        log.trace(printable(line));
    }
    out << (options.job            ? job_script(merge, *options.job)
            : options.lists_inputs ? inputs_text(merge)
            : options.json         ? plan_json(merge)
                                   : plan_text(merge));
    if (options.strict && !merge.warnings.empty()) {
        throw Error(
            ErrorCode::strict,
            counted(merge.warnings.size(), "warning") + " under --strict: the merge would fail",
            "see to what is warned of, or leave --strict out");
    }
}

}  // namespace

PlannedMerge plan_merge(mpi::Comm& comm, const Options& options) {
    Rehearsal rehearsal(comm, options);
    Session& session = rehearsal.session();
    Sources sources = find_sources(session, merge_terms(options));
    Planned planned = plan_for(session, options, std::move(sources));
    Figures figures = figures_of(planned.plan);
    return planned_merge(session, std::move(planned), std::move(figures));
}

int print_plan(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    Rehearsal rehearsal(comm, options, log);
    Session& session = rehearsal.session();
    Preparation ready;
    Preflight preflight;
    check_before_reading(session, preflight, ready, options.has_target, options.n_ranks, log);
    if (ready.sources && preflight.check([&] {
            ready.planned = plan_for(session, options, *std::move(ready.sources), ready.roof);
        })) {
        if (options.has_target) {
            check_target_place(session, preflight, ready);
        }
        preflight.check([&] {
            mpi::collectively(comm, [&] {
                if (comm.rank() == 0) {
                    print_planned(advised(session, options, std::move(ready)), options, out, log);
                }
            });
        });
    }
    preflight.require_none();
    return 0;
}

}  // namespace shardweld::app
