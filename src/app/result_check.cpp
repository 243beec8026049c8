#include "result_check.hpp"

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
    report.sanity = judge_census(assembly_.plan().targets, census_.gather(comm));
    std::vector<plan::Warning> warnings = sanity_warnings(report.sanity);
    if (base_) {
        report.base = base_->finish(comm);
        log.info(text_of(*report.base));
        const auto more = base_warnings(*report.base);
        warnings.insert(warnings.end(), more.begin(), more.end());
    }
    return warnings;
}

}  // namespace shardweld::app
