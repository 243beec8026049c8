#include "base_comparison.hpp"

#include <set>
#include <utility>

#include "shardweld/plan/plan.hpp"

#include "../cli/selection.hpp"

namespace shardweld::app {

namespace {

/// What one side may lack: what --include and --exclude leave out, an adapter beside the model, and
/// the heads by which a value model and a language model differ.
std::function<bool(const std::string&)> left_aside(const Options& options, const Planned& planned) {
    std::set<std::string> beside;
    for (const plan::Target& target : planned.plan.targets) {
        if (!target.file.empty()) {
            beside.insert(target.name);
        }
    }
    return [beside = std::move(beside), is_selected = selects(options.selection),
            is_value = planned.model.prepared.is_value](const std::string& name) {
        const bool is_head = name.ends_with("lm_head.weight") || name.ends_with("score.weight");
        return (is_value && is_head) || beside.contains(name) || !is_selected(name);
    };
}

/// Where the result does not say whether its head is tied, the base does.
StatedTies ties_of(const Planned& planned, const ModelDirectory& base) {
    const auto ties = planned.ties();
    return {ties ? ties : base.ties(), base.ties()};
}

}  // namespace

BaseComparison::BaseComparison(Session& session, const Planned& planned)
    : directory_(session.options.base->string()),
      is_aside_(left_aside(session.options, planned)),
      base_(read_model_directory(session, *session.options.base)),
      matching_(match(planned.plan.targets, base_.tensors, ties_of(planned, base_))),
      comparer_(planned.plan, {source_of(session, base_.input), &base_.tensors}, matching_.pairs,
                {0, 0}, planned.choice.memory_limit) {
    base_.want(matching_.pairs);
}

BaseSummary BaseComparison::finish(Session& session) {
    (void)check_what_was_read(session, base_.input, {});
    return summary_of(
        directory_, judge(std::move(matching_), comparer_.gather(session.comm), false), is_aside_);
}

}  // namespace shardweld::app
