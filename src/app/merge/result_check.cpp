#include "result_check.hpp"

#include <set>
#include <string>

#include "plan/plan.hpp"

namespace shardweld::app {

bool compares_with_base(const Options& options, const Planned& planned) {
    return options.base && (!planned.holds_adapter_only || options.lora == Lora::fold);
}

ResultCheck::ResultCheck(Session& session, const Planned& planned, bool has_base)
    : planned_(planned), census_(planned.plan) {
    if (has_base && compares_with_base(session.options, planned)) {
        base_.emplace(session, planned);
    }
}

void ResultCheck::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    census_.add(slice, bytes);
    if (base_) {
        base_->add(slice, bytes);
    }
}

std::vector<plan::Warning> ResultCheck::finish(Session& session) {
    Report& report = session.report;
    std::set<std::string> changed;
    std::vector<plan::Warning> of_base;
    if (base_) {
        report.base = base_->finish(session);
        changed.insert(report.base->changed.begin(), report.base->changed.end());
        session.log.info(text_of(*report.base));
        of_base = base_warnings(*report.base);
    }
    report.sanity = judge_census(planned_.plan.targets, census_.gather(session.comm), changed);
    std::vector<plan::Warning> warnings = sanity_warnings(report.sanity);
    warnings.insert(warnings.end(), of_base.begin(), of_base.end());
    return warnings;
}

}  // namespace shardweld::app
