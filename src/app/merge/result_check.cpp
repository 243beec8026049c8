#include "result_check.hpp"

#include <set>
#include <string>

namespace shardweld::app {

bool compares_with_base(const Options& options, const Assembly& assembly) {
    return options.base && (!assembly.holds_adapter_only() || options.lora == Lora::fold);
}

ResultCheck::ResultCheck(mpi::Comm& comm, const Options& options, const Assembly& assembly,
                         Bytes memory)
    : assembly_(assembly), census_(assembly.plan()) {
    if (compares_with_base(options, assembly)) {
        base_.emplace(comm, options, assembly, memory);
    }
}

void ResultCheck::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    census_.add(slice, bytes);
    if (base_) {
        base_->add(slice, bytes);
    }
}

std::vector<plan::Warning> ResultCheck::finish(mpi::Comm& comm, Report& report, Log& log) {
    std::set<std::string> changed;
    std::vector<plan::Warning> of_base;
    if (base_) {
        report.base = base_->finish(comm);
        changed.insert(report.base->changed.begin(), report.base->changed.end());
        log.info(text_of(*report.base));
        of_base = base_warnings(*report.base);
    }
    report.sanity = judge_census(assembly_.plan().targets, census_.gather(comm), changed);
    std::vector<plan::Warning> warnings = sanity_warnings(report.sanity);
    warnings.insert(warnings.end(), of_base.begin(), of_base.end());
    return warnings;
}

}  // namespace shardweld::app
