#include "preflight.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "app/messages/log.hpp"
#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "app/runtime/stop.hpp"
#include "core/text.hpp"
#include "execute/journal.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "reshape/destination.hpp"

#include "resumption.hpp"
#include "uploading.hpp"

namespace shardweld::app {

namespace {

/// Ranks of one host, and the least that any of them may use there.
struct Host {
    Index n_ranks = 0;
    Bytes needed = 0;
    std::optional<Bytes> limit;
};

void require_enough(const std::string& name, const Host& host) {
    if (!host.limit || host.needed <= *host.limit) {
        return;
    }
    throw Error(
        ErrorCode::memory,
        "the " + counted(static_cast<std::size_t>(host.n_ranks), "rank") + " on " +
            printable(name) + " will need " + human_bytes(host.needed) +
            " of memory, but the job may use " + human_bytes(*host.limit) + " there",
        "ask for more (--mem), start fewer ranks per node or give a smaller --memory_limit");
}

/// All that may be read of a checkpoint.
void add_files(const Checkpoint& found, std::vector<fs::path>& paths) {
    for (const auto* const files : {&found.location.shard_files, &found.files}) {
        for (const std::string& file : *files) {
            paths.push_back(found.location.directory / file);
        }
    }
}

// The lock, the partial directory, the journal's directory, its header, and what the journal tells
// while the model appears.
constexpr Index kFilesAround = 5;

Needs sum_of(const std::vector<publish::Asset>& assets) {
    Needs beside;
    std::set<fs::path> directories;
    for (const publish::Asset& asset : assets) {
        beside.bytes += asset.size();
        directories.insert(fs::path(asset.name).parent_path());
    }
    directories.erase(fs::path());
    beside.n_files = static_cast<Index>(assets.size() + directories.size());
    return beside;
}

/// Collective. What rank `home` finds of its `assets`, on all ranks.
Needs gather_side_files(mpi::Comm& comm, int home,
                        const std::function<std::vector<publish::Asset>()>& assets) {
    return mpi::share(comm, home, [&] { return sum_of(assets()); });
}

/// README.md, at most.
constexpr Bytes kMostOfCard = 4096;

/// The report that is kept with the model, which nobody knows before the run is over.
Needs report_needs(const JobOutput& asked, std::size_t n_tensors) {
    constexpr Bytes kEachTensor = Bytes{1} << 10U;
    constexpr Bytes kAllElse = Bytes{16} << 10U;
    return asked.keeps_report ? Needs{kAllElse + n_tensors * kEachTensor, 1} : Needs{};
}

/// The output, the files beside it, the factors of a fold (0: none), and the journal, which has a
/// file for each rank.
Needs needs_of(const Output& output, const Needs& beside, Bytes factor_bytes) {
    const plan::Plan& plan = output.plan;
    const Needs report = report_needs(output.session.output, plan.tensors.size());
    const auto n_files = static_cast<Index>(plan.placement.files.size());
    return {plan.placement.total_bytes() + beside.bytes + report.bytes + factor_bytes +
                execute::journal_bytes(plan),
            n_files + beside.n_files + report.n_files + (factor_bytes > 0 ? 1 : 0) +
                plan.n_ranks() + kFilesAround};
}

/// Collective. The least that a merge of a checkpoint will put there, by the sizes of its files: 0
/// where these do not tell.
Needs least_needs(const Session& session, Checkpoint& found, const Needs& beside) {
    const Job& job = session.job;
    // What is selected, cast or left out makes the output smaller by no one knows how much.
    const bool is_whole = !job.model.selection.include && !job.model.selection.exclude &&
                          !session.output.dtype && !session.output.quantise &&
                          job.model.lora != Lora::drop;
    Bytes weights = 0;
    if (is_whole && formats::format_of(found.location).holds_weights_only) {
        for (const auto& group : found.visibility.sizes_of(found.files)) {
            for (const Index size : group) {
                weights = std::max(weights, static_cast<Bytes>(std::max<Index>(size, 0)));
            }
        }
    }
    // Ranks hold replicas of each other at times, and a tied head is written once.
    const Needs report = report_needs(session.output, 0);
    return {weights / 2 + beside.bytes, beside.n_files + report.n_files + kFilesAround, true};
}

/// Collective. What is left where the target will be made: on rank 0, nothing on the others.
publish::Room room_of_target(const Session& session) {
    return mpi::collectively_get(session.comm, [&] {
        return session.comm.rank() == 0
                   ? publish::room_at(publish::holder_of(session.output.directory), search_path())
                   : publish::Room();
    });
}

/// The owners of quotas that are known ("user 1000"); empty where none is.
std::vector<std::string> quotas_of(const publish::Room& room) {
    std::vector<std::string> quotas;
    for (const publish::Quota& quota : room.quotas) {
        quotas.push_back(quota.whose);
    }
    return quotas;
}

/// Collective; rank 0's words count. Error(space) listing all that is short.
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

/// The sizes of files tell the least that is needed.
void check_least_room(const Session& session, Sources& sources) {
    mpi::Comm& comm = session.comm;
    const Needs beside = gather_side_files(comm, sources.weights().home, [&] {
        return sources.files ? sources.files->assets : std::vector<publish::Asset>();
    });
    require_room(session, room_of_target(session), least_needs(session, sources.weights(), beside));
}

/// Outputs on one file system need their room together.
void check_room(const Preparation& ready) {
    std::map<std::uint64_t, Needs> together;
    for (std::size_t at = 0; at < ready.beside.size(); ++at) {
        const Output& output = ready.planned.outputs[at];
        const Session& session = output.session;
        const publish::Room room = room_of_target(session);
        session.report.quotas = quotas_of(room);
        session.log.debug("quotas of the target's file system: " +
                          quotas_text(*session.report.quotas));
        const Needs own =
            needs_of(output, ready.beside[at], at == 0 ? ready.planned.factor_bytes() : 0);
        Needs& all = together[room.device];
        all.bytes += own.bytes;
        all.n_files += own.n_files;
        require_room(session, room, all);
    }
}

/// Collective. The target may be made or replaced by this run, and work that is taken up there was
/// begun alike. Error(target), Error(usage), Error(mismatch).
void check_target(const Session& session) {
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            const publish::TargetRequest request = target_request(session);
            (void)publish::checked_target(request);
            if (request.resume) {
                publish::require_same_way(request.target, way_of(session));
            }
        }
    });
}

void require_apart(const fs::path& one, const fs::path& other) {
    if (io::is_within(other, one) || io::is_within(one, other)) {
        throw Error(ErrorCode::target,
                    "the target directories " + one.string() + " and " + other.string() +
                        (one == other ? " are one" : " lie in each other"),
                    "give each output a directory of its own");
    }
}

/// Collective. The targets of a merge are apart from each other. Error(target).
void check_targets_apart(const Outputs& outputs) {
    mpi::Comm& comm = outputs.front().comm;
    mpi::collectively(comm, [&] {
        std::vector<fs::path> targets;
        for (std::size_t at = 0; comm.rank() == 0 && at < outputs.size(); ++at) {
            const fs::path target = io::resolved(outputs[at].output.directory);
            for (const fs::path& one : targets) {
                require_apart(one, target);
            }
            targets.push_back(target);
        }
    });
}

/// Collective. No file that is read lies, through links, in a target that will be replaced.
/// Error(target).
void check_inputs_apart(const Session& session, const Sources& sources) {
    const Job& job = session.job;
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() != 0 || !job.run.overwrite) {
            return;
        }
        std::vector<fs::path> inputs;
        if (job.model.recipe) {
            inputs.push_back(*job.model.recipe);
        }
        for (const Checkpoint& one : sources.inputs) {
            add_files(one, inputs);
        }
        if (sources.files && !sources.files->hf_directory.empty()) {
            // Below the checkpoint they may lie without being named.
            inputs.push_back(sources.files->hf_directory);
        }
        publish::require_apart(session.output.directory, inputs);
    });
}

/// Collective. What the ranks of each host will hold, by each rank's `forecast`, fits what their
/// job may use there. Error(memory) naming the host.
void check_memory(mpi::Comm& comm, const std::function<MemoryForecast()>& forecast) {
    const auto limit = job_memory(system_memory_sources());
    const std::pair mine(limit ? forecast().peak() : Bytes{0}, limit);
    std::map<std::string, Host> hosts;
    for (const auto& [name, memory] : mpi::gather(comm, std::pair(comm.host(), mine))) {
        Host& host = hosts[name];
        ++host.n_ranks;
        host.needed += memory.first;
        if (memory.second) {
            host.limit = std::min(*memory.second, host.limit.value_or(*memory.second));
        }
    }
    for (const auto& [name, host] : hosts) {
        require_enough(name, host);
    }
}

}  // namespace

bool Preflight::check(const std::function<void()>& body) {
    try {
        body();
        return true;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::stopped) {
            throw;
        }
        // Two checks may stumble over one thing.
        const bool is_known =
            std::any_of(problems_.begin(), problems_.end(), [&](const Error& known) {
                return known.code() == error.code() && known.full_text() == error.full_text();
            });
        if (!is_known) {
            problems_.push_back(error);
        }
        return false;
    }
}

void Preflight::add(const std::vector<Error>& problems) {
    problems_.insert(problems_.end(), problems.begin(), problems.end());
}

void Preflight::require_none() const {
    if (!problems_.empty()) {
        throw Error(all_of(problems_, "problems, nothing was written"));
    }
}

Error all_of(const std::vector<Error>& problems, const std::string& title) {
    if (problems.size() == 1) {
        return problems.front();
    }
    std::map<std::string, std::size_t> hints;
    for (const Error& problem : problems) {
        ++hints[hint_of(problem)];
    }
    Error all(problems.front().code(), "", hints.size() == 1 ? hints.begin()->first : "");
    const std::string at_end = hint_of(all);
    std::string text = std::to_string(problems.size()) + " " + title + ":";
    for (const Error& problem : problems) {
        // Warnings name themselves.
        const bool is_warning = problem.code() == ErrorCode::strict;
        // A hint that several share stands below the last of them.
        const std::string hint = hint_of(problem);
        const bool is_last = --hints[hint] == 0;
        text += "\n- " + std::string(problem.what()) +
                (is_warning ? "" : " (" + std::string(name_of(problem.code())) + ")") +
                where_line(problem) + (is_last && hint != at_end ? hint_line(hint) : "");
    }
    return {all.code(), text, all.hint()};
}

void check_before_reading(const Outputs& outputs, Preflight& preflight, Preparation& ready,
                          bool has_target) {
    Session session = outputs.front();
    mpi::Comm& comm = session.comm;
    const Job& job = session.job;
    if (has_target) {
        for (const Session& one : outputs) {
            preflight.check([&] { check_target(one); });
            preflight.check([&] { check_report(comm, one.output.report, one.output.directory); });
        }
        preflight.check([&] { check_targets_apart(outputs); });
    }
    if (uploads(job)) {
        preflight.check([&] { check_upload(comm, job, session.log); });
    }
    if (!ready.sources) {
        preflight.check([&] { ready.sources.emplace(find_sources(session, merge_request(job))); });
    }
    if (ready.sources && has_target) {
        for (const Session& one : outputs) {
            preflight.check([&] { check_inputs_apart(one, *ready.sources); });
        }
        ready.has_least_room = preflight.check([&] { check_least_room(session, *ready.sources); });
    }
}

void check_target_place(Preflight& preflight, Preparation& ready) {
    const Planned& planned = ready.planned;
    preflight.check([&] {
        for (const Output& output : planned.outputs) {
            ready.beside.push_back(gather_side_files(output.session.comm, planned.input.home,
                                                     [&] { return output.assets(); }));
            if (output.gets_card()) {
                ready.beside.back().bytes += kMostOfCard;
                ++ready.beside.back().n_files;
            }
        }
    });
    if (ready.has_least_room) {
        preflight.check([&] { check_room(ready); });
    }
}

void check_planned(Preflight& preflight, Preparation& ready) {
    mpi::Comm& comm = ready.planned.first().session.comm;
    check_target_place(preflight, ready);
    preflight.check([&] { check_memory(comm, [&] { return ready.planned.forecast(comm); }); });
    for (const auto& run : ready.planned.runs()) {
        preflight.check([&] { require_memory(comm, ready.planned.outputs[run.front()].plan); });
    }
}

publish::TargetRequest target_request(const Session& session) {
    const Job& job = session.job;
    publish::TargetRequest request{session.output.directory,
                                   {job.inputs.front().directory},
                                   job.run.overwrite,
                                   !job.run.restart,
                                   job_name(),
                                   job_restarts()};
    const Averaging& averaging = job.model.averaging;
    request.inputs.insert(request.inputs.end(), averaging.others.begin(), averaging.others.end());
    for (const auto& input : {job.model.hf_config, job.model.base, averaging.base}) {
        if (input) {
            request.inputs.push_back(*input);
        }
    }
    if (const std::string like = reshape::template_in(session.output.form); !like.empty()) {
        request.inputs.emplace_back(like);
    }
    if (!job.model.supplement.empty()) {
        request.inputs.push_back(job.model.supplement);
    }
    return request;
}

std::string quotas_text(const std::vector<std::string>& quotas) {
    return quotas.empty() ? "unknown on this file system" : "checked: " + listed(quotas);
}

}  // namespace shardweld::app
