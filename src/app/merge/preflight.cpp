#include "preflight.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "app/messages/log.hpp"
#include "app/runtime/memory.hpp"
#include "app/runtime/stop.hpp"
#include "core/text.hpp"
#include "execute/journal.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

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
        "the " + counted(host.n_ranks, "rank") + " on " + printable(name) + " will need " +
            human_bytes(host.needed) + " of memory, but the job may use " +
            human_bytes(*host.limit) + " there",
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

/// What is put on the file system, at most at one time.
struct Needs {
    Bytes bytes = 0;
    Index n_files = 0;      ///< with the directories they need
    bool is_least = false;  ///< it may be more

    static constexpr auto fields = [](auto& self) { return std::tie(self.bytes, self.n_files); };
};

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
    const Needs report = report_needs(output.asked(), plan.tensors.size());
    const auto n_files = std::ssize(plan.placement.files);
    return {plan.placement.total_bytes() + beside.bytes + report.bytes + factor_bytes +
                execute::journal_bytes(plan),
            n_files + beside.n_files + report.n_files + (factor_bytes > 0 ? 1 : 0) +
                plan.n_ranks() + kFilesAround};
}

/// Collective. The least that a merge of a checkpoint will put there, by the sizes of its files: 0
/// where these do not tell.
Needs least_needs(const Job& job, const JobOutput& output, Checkpoint& found, const Needs& beside) {
    // What is selected, cast or left out makes the output smaller by no one knows how much.
    const bool is_whole = !job.model.selection.include && !job.model.selection.exclude &&
                          !output.dtype && !output.quantise && job.model.lora != Lora::drop;
    Bytes weights = 0;
    if (is_whole && formats::format_of(found.location).holds_weights_only) {
        for (const auto& group : found.visibility.sizes_of(found.files)) {
            for (const Index size : group) {
                weights = std::max(weights, static_cast<Bytes>(std::max<Index>(size, 0)));
            }
        }
    }
    // Ranks hold replicas of each other at times, and a tied head is written once.
    const Needs report = report_needs(output, 0);
    return {weights / 2 + beside.bytes, beside.n_files + report.n_files + kFilesAround, true};
}

/// Collective. What is left where the target will be made: on rank 0, nothing on the others.
publish::Room room_of_target(mpi::Comm& comm, const JobOutput& output) {
    return mpi::collectively_get(comm, [&] {
        return comm.rank() == 0
                   ? publish::room_at(publish::holder_of(output.directory), search_path())
                   : publish::Room();
    });
}

/// Collective; rank 0's words count. Error(space) listing all that is short.
void require_room(const Run& run, const JobOutput& output, const publish::Room& room,
                  const Needs& needs) {
    mpi::on_first(run.comm, [&] {
        // What a dead run left will be used again or removed.
        const Bytes reclaimed = publish::bytes_left_behind(output.directory, !run.job.run.restart);
        publish::require_room(room, output.directory,
                              needs.bytes - std::min(needs.bytes, reclaimed), needs.n_files,
                              needs.is_least);
    });
}

/// The sizes of files tell the least that is needed.
void check_least_room(const Run& run, Merge& merge) {
    const JobOutput& output = merge.first().asked();
    const Needs beside = gather_side_files(run.comm, merge.weights().home, [&] {
        return merge.model_files ? merge.model_files->assets : std::vector<publish::Asset>();
    });
    require_room(run, output, room_of_target(run.comm, output),
                 least_needs(run.job, output, merge.weights(), beside));
}

/// Outputs on one file system need their room together. `beside`: the weights, by output.
void check_room(const Run& run, Merge& merge, const std::vector<Needs>& beside) {
    std::map<std::uint64_t, Needs> together;
    for (const std::size_t at : indices(beside)) {
        Output& output = merge.outputs[at];
        const publish::Room room = room_of_target(run.comm, output.asked());
        output.report.quotas = collect_list(room.quotas, &publish::Quota::whose);
        run.log.debug("quotas of the target's file system: " + quotas_text(*output.report.quotas));
        const Needs own = needs_of(output, beside[at], at == 0 ? merge.factor_bytes() : 0);
        Needs& all = together[room.device];
        all.bytes += own.bytes;
        all.n_files += own.n_files;
        require_room(run, output.asked(), room, all);
    }
}

/// Collective. The target may be made or replaced by this run, and work that is taken up there was
/// begun alike. Error(target), Error(usage), Error(mismatch).
void check_target(const Run& run, const JobOutput& output) {
    mpi::on_first(run.comm, [&] {
        const bool resume = !run.job.run.restart;
        (void)publish::checked_target(output.directory, input_directories(run.job),
                                      run.job.run.overwrite, resume);
        if (resume) {
            publish::require_same_way(output.directory, way_of(run.job, output));
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
void check_targets_apart(mpi::Comm& comm, const std::vector<Output>& outputs) {
    mpi::on_first(comm, [&] {
        std::vector<fs::path> targets;
        for (const Output& output : outputs) {
            const fs::path target = io::resolved(output.asked().directory);
            for (const fs::path& one : targets) {
                require_apart(one, target);
            }
            targets.push_back(target);
        }
    });
}

/// Collective. No file that is read lies, through links, in a target that will be replaced.
/// Error(target).
void check_inputs_apart(const Run& run, const Merge& merge, const JobOutput& output) {
    const Job& job = run.job;
    mpi::on_first(run.comm, [&] {
        if (!job.run.overwrite) {
            return;
        }
        std::vector<fs::path> inputs;
        if (job.model.recipe) {
            inputs.push_back(*job.model.recipe);
        }
        for (const Checkpoint& one : merge.inputs) {
            add_files(one, inputs);
        }
        if (merge.model_files && !merge.model_files->hf_directory.empty()) {
            // Below the checkpoint they may lie without being named.
            inputs.push_back(merge.model_files->hf_directory);
        }
        publish::require_apart(output.directory, inputs);
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
        const bool is_known = std::ranges::any_of(problems_, [&](const Error& known) {
            return known.code() == error.code() && known.full_text() == error.full_text();
        });
        if (!is_known) {
            problems_.push_back(error);
        }
        return false;
    }
}

void Preflight::add(const std::vector<Error>& problems) {
    append_all(problems_, problems);
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

void check_targets(Preflight& preflight, const Run& run, const Merge& merge, bool has_target) {
    if (has_target) {
        for (const Output& one : merge.outputs) {
            preflight.check([&] { check_target(run, one.asked()); });
            preflight.check(
                [&] { check_report(run.comm, one.asked().report, one.asked().directory); });
        }
        preflight.check([&] { check_targets_apart(run.comm, merge.outputs); });
    }
    if (uploads(run.job)) {
        preflight.check([&] { check_upload(run.comm, run.job, run.log); });
    }
}

bool check_found(Preflight& preflight, const Run& run, Merge& merge) {
    for (const Output& one : merge.outputs) {
        preflight.check([&] { check_inputs_apart(run, merge, one.asked()); });
    }
    return preflight.check([&] { check_least_room(run, merge); });
}

bool check_target_place(Preflight& preflight, const Run& run, Merge& merge, bool has_room) {
    std::vector<Needs> beside;
    preflight.check([&] {
        for (const Output& output : merge.outputs) {
            beside.push_back(
                gather_side_files(run.comm, merge.input.home, [&] { return output.assets(); }));
            if (output.gets_card(run.job)) {
                beside.back().bytes += kMostOfCard;
                ++beside.back().n_files;
            }
        }
    });
    return has_room && preflight.check([&] { check_room(run, merge, beside); });
}

void check_planned(Preflight& preflight, const Run& run, Merge& merge, bool has_room) {
    (void)check_target_place(preflight, run, merge, has_room);
    preflight.check([&] { check_memory(run.comm, [&] { return merge.forecast(run.comm); }); });
    for (const auto& outputs : merge.runs()) {
        preflight.check([&] { require_memory(run.comm, merge.outputs[outputs.front()].plan); });
    }
}

std::vector<fs::path> input_directories(const Job& job) {
    auto directories = collect_list(job.inputs, &formats::JobInput::directory);
    if (job.model.hf_config) {
        directories.push_back(*job.model.hf_config);
    }
    return directories;
}

std::string quotas_text(const std::vector<std::string>& quotas) {
    return quotas.empty() ? "unknown on this file system" : "checked: " + listed(quotas);
}

}  // namespace shardweld::app
