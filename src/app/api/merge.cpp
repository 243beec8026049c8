#include "shardweld/merge.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "app/merge/merge.hpp"
#include "app/report/report_json.hpp"
#include "app/report/run.hpp"
#include "mpi/comm.hpp"
#include "shardweld/comm.hpp"

#include "requested.hpp"

namespace shardweld {

namespace {

WrittenOutput written_output(const app::RunReport& run, const app::OutputReport& report) {
    WrittenOutput output;
    output.directory = report.asked.directory;
    for (const app::FileEntry& file : report.files) {
        if (contains(report.side_files, file.name)) {
            continue;
        }
        output.files.push_back(file.name);
    }
    output.tensors = report.tensors.size();
    for (const app::TensorEntry& tensor : report.tensors) {
        output.tensor_bytes += tensor.bytes;
    }
    output.root = report.root;
    output.warnings = app::all_warnings(run, report);
    output.json = app::to_json(run, report);
    return output;
}

}  // namespace

RankGroup::RankGroup(std::unique_ptr<mpi::Comm> ranks) : ranks_(std::move(ranks)) {}
RankGroup::~RankGroup() = default;
RankGroup::RankGroup(RankGroup&& other) noexcept = default;
RankGroup& RankGroup::operator=(RankGroup&& other) noexcept = default;

int RankGroup::rank() const {
    return ranks_->rank();
}

int RankGroup::size() const {
    return ranks_->size();
}

RankGroup serial() {
    return RankGroup(mpi::serial_comm());
}

MpiSession::MpiSession(int /*argc*/, char** /*argv*/) : world_(mpi::world_comm()) {}

MergeReport merge(const RankGroup& comm, const Request& request, Events& events) {
    mpi::Comm& ranks = comm.inner();
    const app::Job job = app::job_of(ranks, request, app::Command::merge);
    app::Log log(events, ranks.rank() == 0);
    MergeReport merged;
    const auto keep = [&](const app::Run& run, const app::OutputReport& output) {
        if (ranks.rank() == 0) {
            merged.outputs.push_back(written_output(*run.report, output));
        }
    };
    try {
        app::run_or_abort(
            ranks, [&] { (void)app::run_reported(ranks, job, log, app::merge_model, keep); });
    } catch (const Error& error) {
        if (error.code() != ErrorCode::stopped) {
            throw;
        }
        merged.why_stopped = error.what();
    }
    return merged;
}

MergeReport merge(const RankGroup& comm, const Request& request) {
    Events nobody;
    return merge(comm, request, nobody);
}

}  // namespace shardweld
