#include "base_comparison.hpp"

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "app/settings/options.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

namespace {

std::string names_text(std::vector<std::string> names) {
    for (std::string& name : names) {
        name = printable(name);
    }
    return listed(names);
}

/// What one side may lack: what --include and --exclude leave out, an adapter beside the model, and
/// the heads by which a value model and a language model differ.
std::function<bool(const std::string&)> left_aside(const Output& output) {
    std::set<std::string> beside;
    for (const plan::Target& target : output.plan.targets) {
        if (!target.file.empty()) {
            beside.insert(target.name);
        }
    }
    return [beside = std::move(beside), is_selected = selects(output.session.options.selection),
            is_value = output.model.prepared.is_value](const std::string& name) {
        const bool is_head = name.ends_with("lm_head.weight") || name.ends_with("score.weight");
        return (is_value && is_head) || beside.contains(name) || !is_selected(name);
    };
}

/// Where the result does not say whether its head is tied, the base does.
StatedTies ties_of(const Output& output, const ModelDirectory& base) {
    const auto ties = output.ties();
    return {ties ? ties : base.ties(), base.ties()};
}

}  // namespace

BaseSummary summary_of(std::string directory, const Outcome& outcome,
                       const std::function<bool(const std::string&)>& is_aside) {
    BaseSummary summary;
    summary.directory = std::move(directory);
    for (const ComparedTensor& row : outcome.tensors) {
        if (row.found.n_elements > 0) {
            ++summary.n_compared;
            summary.n_equal += row.found.n_unequal_bits == 0 ? 1U : 0U;
            if (row.found.n_different > 0) {
                summary.changed.push_back(row.name);
            }
            if (row.found.absolute.error > summary.max_absolute) {
                summary.max_absolute = row.found.absolute.error;
                summary.max_tensor = row.name;
            }
        } else if (row.verdict == Verdict::extra || row.verdict == Verdict::missing) {
            auto& names = row.verdict == Verdict::extra ? summary.extra : summary.missing;
            if (!is_aside(row.name)) {
                names.push_back(row.name);
            }
        } else {
            summary.shapes.push_back(row.name);
        }
    }
    return summary;
}

std::string text_of(const BaseSummary& summary) {
    std::string text = "compared with the base " + summary.directory + ": " +
                       std::to_string(summary.n_compared - summary.n_equal) + " of " +
                       std::to_string(summary.n_compared) + " tensors differ";
    if (!summary.max_tensor.empty()) {
        text += ", at most by " + number_text(summary.max_absolute) + " (" +
                printable(summary.max_tensor) + ")";
    }
    if (!summary.extra.empty()) {
        text += "; only in the result: " + names_text(summary.extra);
    }
    if (!summary.missing.empty()) {
        text += "; only in the base: " + names_text(summary.missing);
    }
    return text;
}

std::vector<plan::Warning> base_warnings(const BaseSummary& summary) {
    std::vector<plan::Warning> warnings;
    if (summary.n_compared == summary.n_equal && summary.shapes.empty()) {
        warnings.push_back({"equals_base", "",
                            "no tensor differs from the base " + summary.directory + " (" +
                                std::to_string(summary.n_compared) +
                                " compared): was the training applied?"});
    }
    if (!summary.shapes.empty()) {
        warnings.push_back({"base_differs_shape", summary.shapes.front(),
                            std::to_string(summary.shapes.size()) +
                                " tensor(s) cannot be compared with the base's, which have "
                                "other shapes or types: " +
                                names_text(summary.shapes)});
    }
    if (!summary.missing.empty()) {
        warnings.push_back({"base_missing", summary.missing.front(),
                            std::to_string(summary.missing.size()) +
                                " tensor(s) of the base are not in the result: " +
                                names_text(summary.missing) + "; were they lost?"});
    }
    if (!summary.extra.empty()) {
        warnings.push_back({"base_extra", summary.extra.front(),
                            std::to_string(summary.extra.size()) +
                                " tensor(s) of the result are not in the base: " +
                                names_text(summary.extra) + "; is it the model that was trained?"});
    }
    return warnings;
}

BaseComparison::BaseComparison(Output& output)
    : directory_(output.session.options.base->string()),
      is_aside_(left_aside(output)),
      base_(read_model_directory(output.session, *output.session.options.base)),
      matching_(match(output.plan.targets, base_.tensors, ties_of(output, base_))),
      comparer_(output.plan, {source_of(output.session, base_.input), &base_.tensors},
                matching_.pairs, {0, 0}, output.choice.memory_limit) {
    base_.want(matching_.pairs);
}

BaseSummary BaseComparison::finish(Session& session) {
    (void)check_what_was_read(session, base_.input, {});
    return summary_of(
        directory_, judge(std::move(matching_), comparer_.gather(session.comm), false), is_aside_);
}

bool compares_with_base(const Planned& planned) {
    const Options& options = planned.first().session.options;
    return options.base && (!planned.holds_adapter_only || options.lora == Lora::fold);
}

ResultCheck::ResultCheck(Output& output, bool has_base) : output_(output), census_(output.plan) {
    if (has_base) {
        base_.emplace(output);
    }
}

void ResultCheck::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    census_.add(slice, bytes);
    if (base_) {
        base_->add(slice, bytes);
    }
}

std::vector<plan::Warning> ResultCheck::finish() {
    Session& session = output_.session;
    OutputReport& report = session.report;
    std::set<std::string> changed;
    std::vector<plan::Warning> of_base;
    if (base_) {
        report.base = base_->finish(session);
        changed.insert(report.base->changed.begin(), report.base->changed.end());
        session.log.info(text_of(*report.base));
        of_base = base_warnings(*report.base);
    }
    report.sanity = judge_census(output_.plan.targets, census_.gather(session.comm), changed);
    std::vector<plan::Warning> warnings = sanity_warnings(report.sanity);
    warnings.insert(warnings.end(), of_base.begin(), of_base.end());
    return warnings;
}

}  // namespace shardweld::app
