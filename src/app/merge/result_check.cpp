#include "result_check.hpp"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "app/binding/optimizer_text.hpp"
#include "app/compare/base_summary.hpp"
#include "app/compare/comparison.hpp"
#include "app/compare/model_directory.hpp"
#include "execute/comparer.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

namespace {

/// What one side may lack: what --include and --exclude leave out, an adapter beside the model, and
/// the heads by which a value model and a language model differ.
std::function<bool(const std::string&)> left_aside(const Job& job, const Output& output) {
    std::set<std::string> beside =
        collect_set(output.plan.targets, plan::full_name,
                    [&](const plan::Target& target) { return !target.file.empty(); });
    return [beside = std::move(beside), is_selected = selects(job.model.selection),
            is_value = output.model.is_value](const std::string& name) {
        const bool is_head = name.ends_with("lm_head.weight") || name.ends_with("score.weight");
        return (is_value && is_head) || beside.contains(name) || !is_selected(name);
    };
}

/// What is compared with the base; where the result says nothing of tied heads, the base speaks for
/// it.
ComparedModels matched(const Output& output, const ModelDirectory& base) {
    const auto ties = output.ties();
    return match(output.plan.targets, base.tensors, ties ? ties : base.ties(), base.ties());
}

}  // namespace

/// The base, and the comparison under way.
class BaseComparison {
  public:
    /// Collective. Reads the base's metadata. Error(not_found) when a rank does not see it.
    BaseComparison(const Run& run, const Output& output, Bytes memory);

    /// An OnSlice.
    void add(const plan::Slice& slice, ByteView bytes) { comparer_.add(slice, bytes); }

    /// Collective, once. Error(corrupt) when what was read of the base is not as its checksums say.
    BaseSummary finish(const Run& run);

  private:
    std::string directory_;
    std::function<bool(const std::string&)> is_aside_;
    ModelDirectory base_;
    ComparedModels compared_;
    execute::Comparer comparer_;
};

BaseComparison::BaseComparison(const Run& run, const Output& output, Bytes memory)
    : directory_(run.job.model.base->string()),
      is_aside_(left_aside(run.job, output)),
      base_(read_model_directory(run, *run.job.model.base)),
      compared_(matched(output, base_)),
      comparer_(output.plan, source_of(run, base_.input), base_.tensors, compared_.pairs, {0, 0},
                memory) {
    base_.use_records_of(compared_.pairs);
}

BaseSummary BaseComparison::finish(const Run& run) {
    (void)check_what_was_read(run, base_.input, {});
    judge(compared_, comparer_.gather(run.comm), false);
    return summary_of(directory_, compared_, is_aside_);
}

ResultCheck::ResultCheck(const Run& run, Output& output, std::optional<Bytes> base_memory)
    : run_(run), output_(output), census_(output.plan), signs_(output.plan) {
    if (output.plan.placement.format->states_checksums()) {
        sums_.emplace(output.plan);
    }
    if (base_memory) {
        base_ = std::make_unique<BaseComparison>(run, output, *base_memory);
    }
}

ResultCheck::~ResultCheck() = default;

void ResultCheck::add(const plan::Slice& slice, ByteView bytes) {
    const plan::Target& target = output_.plan.target_of(slice.tensor);
    if (target.zeros.empty() || target.n_zeros() < target.volume()) {
        census_.add(slice, bytes);  // padding alone is zero, and nothing to be told
    }
    signs_.add(slice, bytes);
    if (sums_) {
        sums_->add(slice, bytes);
    }
    if (base_) {
        base_->add(slice, bytes);
    }
}

void ResultCheck::complete_files() {
    if (sums_) {
        sums_->write_frames(run_.comm, *output_.directory, run_.job.run.sync, output_.created);
    }
}

Warnings ResultCheck::finish() {
    OutputReport& report = output_.report;
    std::set<std::string> changed;
    Warnings of_base;
    if (base_) {
        report.base = base_->finish(run_);
        changed.insert(report.base->changed.begin(), report.base->changed.end());
        run_.log.info(text_of(*report.base));
        of_base = base_warnings(*report.base);
    }
    auto census = census_.gather(run_.comm);
    const Warnings of_states = judge_moments(census);
    const auto states = judge_states(output_.plan, census);
    report.odd = judge_census(output_.plan.targets, census, changed);
    append_all(*report.odd, states);
    Warnings warnings = sanity_warnings(*report.odd);
    append_all(warnings, of_states);
    if (output_.model.is_ordered) {
        const auto by_order = resting_on_order(output_.plan, census);
        append_all(warnings, by_order);
    }
    append_all(warnings, of_base);
    return warnings;
}

/// Only ranks that planned know the step.
Warnings ResultCheck::judge_moments(const CensusByTensor& census) {
    if (!signs_.is_needed()) {
        return {};
    }
    mpi::Comm& comm = run_.comm;
    const execute::MomentSigns::Found signs = signs_.gather(comm);
    return mpi::share(comm, 0, [&] {
        const auto& optimizer = output_.model.optimizer;
        return moments_at(optimizer ? optimizer->step : 0, output_.plan, census, signs);
    });
}

bool compares_with_base(const Job& job, const Merge& merge) {
    return job.model.base && !merge.first().asked().is_training() &&
           (!merge.holds_adapter_only || job.model.lora == Lora::fold);
}

}  // namespace shardweld::app
