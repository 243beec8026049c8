// What an assembly tells of itself and its inputs when it is prepared.
#include "shardweld/core/text.hpp"
#include "shardweld/plan/trace.hpp"

#include "../compare/model_directory.hpp"
#include "assembly.hpp"

namespace shardweld::app {

publish::Facts Assembly::facts() const {
    publish::Facts facts =
        publish::facts_of(plan_.targets, bound_.binding.logicals, *prepared_.recipe);
    facts.to_token_classes = prepared_.is_value;
    return facts;
}

MemoryForecast Assembly::forecast() const {
    return forecast_memory(plan_, meter_.memory(), comm_.size() > 1);
}

std::optional<bool> Assembly::ties() const {
    return ties_in(publish::true_config(prepared_.config, facts()).text_to_write(),
                   files_.config_path);
}

void Assembly::check_crcs(const mpi::WhyStop& why_stop) {
    if (options_.check_crc != CheckCrc::before) {
        return;
    }
    sums_->want_all();
    report_.crc = execute::check_records(comm_, *sums_, source_, survey_.visibility,
                                         execute::Completion::all, why_stop);
    log_.info(text_of(*report_.crc, options_.check_crc));
    watch_.lap("check_crc").bytes_read = report_.crc->bytes_read;
}

/// By all passes so far.
void Assembly::check_what_was_read(const mpi::WhyStop& why_stop) {
    if (source_.sums) {
        report_.crc = execute::check_records(comm_, *sums_, source_, survey_.visibility,
                                             execute::Completion::cheap, why_stop);
    }
}

/// Bypasses the log level: who asks for a trace wants it.
void Assembly::tell_trace() {
    if (options_.trace.empty() || comm_.rank() != 0) {
        return;
    }
    const auto written = plan::trace_target(plan_, survey_.catalogue.files, options_.trace);
    trace_.insert(trace_.end(), written.begin(), written.end());
    if (trace_.empty()) {
        trace_.push_back("no tensor is called " + printable(options_.trace));
    }
    for (const std::string& line : trace_) {
        log_.stream() << "trace: " << printable(line) << '\n';
    }
}

}  // namespace shardweld::app
