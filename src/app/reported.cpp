#include "reported.hpp"

#include "shardweld/core/codec.hpp"

namespace shardweld::app {

namespace {

void finish_report(Report& report, const Options& options, const std::vector<Phase>& phases,
                   mpi::Comm& comm, Log& log) {
    if (!options.report || comm.rank() != 0) {
        return;
    }
    report.phases = phases;
    try {
        write_report(report, *options.report);
    } catch (const Error& error) {
        log.error(error.full_text());
        report.code = report.code == ErrorCode::ok ? error.code() : report.code;
    }
}

}  // namespace

void require_equal_options(mpi::Comm& comm, const Options& options) {
    ByteWriter out;
    out.put_text(options.backend + " " + options.role + " " + options.upload_path);
    out.put_all<Index>(std::vector<Index>{
        options.iteration.value_or(-1), options.dtype ? static_cast<Index>(*options.dtype) : -1,
        static_cast<Index>(options.max_shard_size),
        static_cast<Index>(options.memory_limit.value_or(0)),
        static_cast<Index>(options.message_limit), static_cast<Index>(options.strategy),
        static_cast<Index>(options.replicas), options.strict ? 1 : 0,
        options.tie_word_embedding ? 1 : 0, options.is_value_model ? 1 : 0,
        options.report.has_value() ? 1 : 0, options.strict_dtype ? 1 : 0,
        static_cast<Index>(options.command), static_cast<Index>(options.lora)});
    out.put_all<double>(
        std::vector<double>{options.atol, options.rtol, options.lora_alpha.value_or(0)});
    const auto all = comm.all_gather(out.take());
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(ErrorCode::usage, "ranks 0 and " + std::to_string(rank) +
                                              " were started with different options: only "
                                              "directories may differ between ranks");
        }
    }
}

int run_reported(mpi::Comm& comm, const Options& options, Log& log, const std::string& command,
                 const ReportedRun& body) {
    require_equal_options(comm, options);
    Report report;
    report.command = command;
    report.mpi = comm.library();
    report.n_ranks = comm.size();
    for (const auto& host : comm.all_gather(std::as_bytes(std::span(comm.host())))) {
        report.hosts.emplace_back(reinterpret_cast<const char*>(host.data()), host.size());
    }
    Stopwatch watch;
    try {
        report.code = body(report, watch);
    } catch (const Error& error) {
        report.code = error.code();
        report.message = error.full_text();
        finish_report(report, options, watch.phases(), comm, log);
        throw;
    }
    finish_report(report, options, watch.phases(), comm, log);
    return static_cast<int>(comm.all_max(static_cast<Index>(report.code)));
}

}  // namespace shardweld::app
