#include "moving.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/core/text.hpp"
#include "shardweld/execute/divisors.hpp"
#include "shardweld/execute/norms.hpp"
#include "shardweld/plan/plan.hpp"

#include "../cli/run_progress.hpp"
#include "../family/bind_model.hpp"
#include "../survey/input.hpp"
#include "equal_replicas.hpp"
#include "resumption.hpp"

namespace shardweld::app {

namespace {

/// Gathers the factors of a fold in a file that all ranks read, and takes the norms they need.
void make_factors(Session& session, Planned& planned, const io::Directory& directory,
                  const mpi::WhyStop& why_stop) {
    mpi::Comm& comm = session.comm;
    const execute::SourceFiles source = source_of(session, planned.input);
    execute::create_files(comm, *planned.factors, directory);
    execute::RunOptions options;
    options.why_stop = why_stop;
    options.sync = comm.size() > 1;
    const auto result = execute::run(comm, *planned.factors, source, directory, options);
    if (!result.differences.empty()) {
        report_what_was_read(session, planned.input, why_stop);
    }
    require_equal_replicas(result, *planned.factors, planned.input.files);
    execute::take_norms(comm, planned.plan, source, directory.path() / kFactors, why_stop);
    session.watch.lap("factors");
}

/// NVFP4's divisors: the largest value of all weights that share one, before any row is written.
void take_divisors(Session& session, Planned& planned, const io::Directory& directory,
                   const fs::path& factors, const mpi::WhyStop& why_stop) {
    mpi::Comm& comm = session.comm;
    const plan::Plan& measured = *planned.measured;
    execute::LargestValues largest(measured);
    execute::RunOptions options;
    options.why_stop = why_stop;
    options.write = false;
    options.factors = factors;
    options.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
        largest.add(slice, bytes);
    };
    const auto result =
        execute::run(comm, measured, source_of(session, planned.input), directory, options);
    require_equal_replicas(result, measured, planned.input.files);
    execute::set_divisors(planned.plan, largest.gather(comm),
                          planned.model.bound.quantisation->shares);
    session.watch.lap("divisors");
}

void tell(Session& session, const Planned& planned, const execute::Result& result,
          bool has_digests) {
    Report& report = session.report;
    Phase& phase = session.watch.lap("execute");
    report.ranks = result.ranks;
    report.memory = planned.input.meter.gather(session.comm);
    for (const execute::RankResult& rank : result.ranks) {
        phase.bytes_read += rank.bytes_read;
        phase.bytes_written += rank.bytes_written;
        phase.bytes_sent += rank.bytes_sent;
        // A message limit cuts one round of reading into several of exchanging.
        report.rounds = std::max({report.rounds, rank.rounds, rank.exchange_steps});
    }
    const std::vector<catalogue::File>& files = planned.input.files;
    session.log.note("read " + human_bytes(phase.bytes_read) + ", sent " +
                     human_bytes(phase.bytes_sent) + ", wrote " + human_bytes(phase.bytes_written));
    if (has_digests && session.comm.rank() == 0) {
        report.tensors = tensor_entries(planned.plan, files, result);
        report.root = execute::root_digest(planned.plan, result.tensor_digests);
    }
}

}  // namespace

void check_crcs(Session& session, const Planned& planned, const mpi::WhyStop& why_stop) {
    if (session.options.check_crc != CheckCrc::before) {
        return;
    }
    const Input& input = planned.input;
    input.sums->want_all();
    session.report.crc = check_shown(session, input, execute::Completion::all, why_stop);
    session.watch.lap("check_crc").bytes_read = session.report.crc->bytes_read;
}

execute::CreatedFiles create_files(Session& session, Planned& planned,
                                   const io::Directory& directory) {
    planned.plan.placement.format->embed_config(planned.plan.placement, planned.config_text);
    auto created =
        execute::create_files(session.comm, planned.plan, directory, session.options.sync);
    session.watch.lap("create");
    return created;
}

execute::Written move_tensors(Session& session, Planned& planned, const io::Directory& directory,
                              execute::RunOptions options) {
    mpi::Comm& comm = session.comm;
    plan::Plan& plan = planned.plan;
    if (planned.factors) {
        make_factors(session, planned, directory, options.why_stop);
        options.factors = directory.path() / kFactors;
    }
    if (planned.measured) {
        take_divisors(session, planned, directory, options.factors, options.why_stop);
    }
    const auto& blocks = options.resumption.blocks;
    if (!blocks.empty()) {
        plan::share_rest(plan, execute::BlockPlaces(plan).lines(blocks), planned.choice.alignment);
    }
    options.sync = session.options.sync;
    options.direct = session.options.is_direct;
    options.digests = session.options.report.has_value();
    options.on_progress = moving_shown(options.write ? "moving tensors" : "comparing tensors", plan,
                                       comm.rank(), session.progress, session.log);
    options.on_read_back = shown(session.progress, "reading back what was written earlier");
    if (planned.input.sums) {
        planned.input.sums->add_earlier(options.resumption.sums);
    }
    execute::Result result =
        execute::run(comm, plan, source_of(session, planned.input), directory, options);
    session.progress.end();
    report_what_was_read(session, planned.input, options.why_stop);
    mpi::collectively(comm, [&] {
        if (planned.factors && comm.rank() == 0) {
            fs::remove(options.factors);
        }
    });
    if (session.options.resume || !blocks.empty()) {
        note_reuse(result, plan.placement.tensor_bytes, session.report, session.log);
    }
    require_equal_replicas(result, plan, planned.input.files);
    tell(session, planned, result, options.digests);
    return std::move(result.written);
}

void check_written(Session& session, const Planned& planned, const io::Directory& directory,
                   const execute::CreatedFiles& created, const execute::Written& written,
                   const mpi::WhyStop& why_stop) {
    execute::check_written(session.comm, planned.plan, directory, created, written,
                           {session.options.paranoid, session.throttle, why_stop,
                            shown(session.progress, "reading back what was written")});
}

}  // namespace shardweld::app
