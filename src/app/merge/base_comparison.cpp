#include "base_comparison.hpp"

#include <set>
#include <utility>

#include "../cli/selection.hpp"

namespace shardweld::app {

namespace {

/// What one side may lack: what --include and --exclude leave out, an adapter beside the model, and
/// the heads by which a value model and a language model differ.
std::function<bool(const std::string&)> left_aside(const Options& options,
                                                   const Assembly& assembly) {
    std::set<std::string> beside;
    for (const plan::Target& target : assembly.plan().targets) {
        if (!target.file.empty()) {
            beside.insert(target.name);
        }
    }
    return [beside = std::move(beside), is_selected = selects(options.selection),
            is_value = assembly.model().is_value](const std::string& name) {
        const bool is_head = name.ends_with("lm_head.weight") || name.ends_with("score.weight");
        return (is_value && is_head) || beside.contains(name) || !is_selected(name);
    };
}

/// Where the result does not say whether its head is tied, the base does.
Ties ties_of(const Assembly& assembly, const ModelDirectory& base) {
    const auto ties = assembly.ties();
    return {ties ? ties : base.ties(), base.ties()};
}

}  // namespace

BaseComparison::BaseComparison(mpi::Comm& comm, const Options& options, const Assembly& assembly,
                               Bytes memory)
    : directory_(options.base->string()),
      is_aside_(left_aside(options, assembly)),
      base_(read_model_directory(comm, *options.base, options.check_crc)),
      matching_(match(assembly.plan().targets, base_.tensors(), ties_of(assembly, base_))),
      source_(base_.source(options.max_open, assembly.throttle())),
      comparer_(assembly.plan(), {source_, &base_.tensors()}, matching_.pairs, {0, 0}, memory) {
    base_.want(matching_.pairs);
}

BaseSummary BaseComparison::finish(mpi::Comm& comm) {
    base_.check_what_was_read(comm, source_);
    return summary_of(directory_, judge(std::move(matching_), comparer_.gather(comm), false),
                      is_aside_);
}

}  // namespace shardweld::app
