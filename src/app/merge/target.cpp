#include "target.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "app/runtime/stop.hpp"
#include "core/text.hpp"
#include "execute/journal.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

namespace {

// The lock, the partial directory, the journal's directory, its header, and what the journal tells
// while the model appears.
constexpr Index kFilesAround = 5;

FilesBeside sum_of(const std::vector<publish::Asset>& assets) {
    FilesBeside beside;
    std::set<fs::path> directories;
    for (const publish::Asset& asset : assets) {
        beside.bytes += asset.size();
        directories.insert(fs::path(asset.name).parent_path());
    }
    directories.erase(fs::path());
    beside.n_files = static_cast<Index>(assets.size() + directories.size());
    return beside;
}

}  // namespace

publish::TargetRequest target_request(const Session& session) {
    const Options& options = session.options;
    publish::TargetRequest request{session.output.directory, {options.local_dir}, options.overwrite,
                                   !options.restart,         job_name(),          job_restarts()};
    const Averaging& averaging = options.averaging;
    request.inputs.insert(request.inputs.end(), averaging.others.begin(), averaging.others.end());
    for (const auto& input : {options.hf_config, options.base, averaging.base}) {
        if (input) {
            request.inputs.push_back(*input);
        }
    }
    return request;
}

FilesBeside gather_side_files(mpi::Comm& comm, int home,
                              const std::function<std::vector<publish::Asset>()>& assets) {
    return mpi::share(comm, home, [&] { return sum_of(assets()); });
}

Needs needs_of(const plan::Plan& plan, const FilesBeside& beside, Bytes factor_bytes) {
    const auto n_files = static_cast<Index>(plan.placement.files.size());
    return {
        plan.placement.total_bytes() + beside.bytes + factor_bytes + execute::journal_bytes(plan),
        n_files + beside.n_files + (factor_bytes > 0 ? 1 : 0) + plan.n_ranks() + kFilesAround};
}

Needs least_needs(const Session& session, const FoundCheckpoint& found, const FilesBeside& beside) {
    const Options& options = session.options;
    // What is selected, cast or left out makes the output smaller by no one knows how much.
    const bool is_whole = !options.selection.include && !options.selection.exclude &&
                          !session.output.dtype && !session.output.quantise &&
                          options.lora != Lora::drop;
    Bytes weights = 0;
    if (is_whole && formats::format_of(found.location).holds_weights_only()) {
        for (const auto& group : found.sizes) {
            for (const Index size : group) {
                weights = std::max(weights, static_cast<Bytes>(std::max<Index>(size, 0)));
            }
        }
    }
    // Ranks hold replicas of each other at times, and a tied head is written once.
    return {weights / 2 + beside.bytes, beside.n_files + kFilesAround, true};
}

publish::Room room_of_target(const Session& session) {
    return mpi::collectively_get(session.comm, [&] {
        return session.comm.rank() == 0
                   ? publish::room_at(publish::holder_of(session.output.directory), search_path())
                   : publish::Room();
    });
}

std::vector<std::string> quotas_of(const publish::Room& room) {
    std::vector<std::string> quotas;
    for (const publish::Quota& quota : room.quotas) {
        quotas.push_back(quota.whose);
    }
    return quotas;
}

std::string quotas_text(const std::vector<std::string>& quotas) {
    return quotas.empty() ? "unknown on this file system" : "checked: " + listed(quotas);
}

void require_room(const Session& session, const publish::Room& room, const Needs& needs) {
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            // What a dead run left will be used again or removed.
            const Bytes reclaimed = publish::bytes_left_behind(target_request(session));
            publish::require_room(room, session.output.directory,
                                  needs.bytes - std::min(needs.bytes, reclaimed), needs.n_files,
                                  needs.is_least);
        }
    });
}

}  // namespace shardweld::app
