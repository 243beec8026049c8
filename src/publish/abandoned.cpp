#include "abandoned.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "core/error_of.hpp"
#include "core/text.hpp"
#include "io/directory.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

#include "lock_file.hpp"
#include "traces.hpp"

namespace shardweld::publish {

namespace {

using Fate = Abandoned::Fate;

/// Locks of other hosts cannot be seen on every file system; a run writes its journal every few
/// seconds.
constexpr double kSilence_s = 600;

constexpr std::array<std::string_view, 3> kTracesInside = {kPartialTrace, kLockTrace, kOldTrace};
/// The last one stands for a moment where a run takes a dead one's lock away.
constexpr std::array<std::string_view, 6> kTracesBeside = {
    kPartialTrace, kLockTrace, kOldTrace, kJournalTrace, kRemovedTrace, ".shardweld-lock.stale"};

/// The target of whose run something is a trace; "" if it is none.
fs::path target_of(const fs::path& path) {
    const std::string name = path.filename().string();
    if (contains(kTracesInside, name)) {
        return path.parent_path();
    }
    for (const std::string_view trace : kTracesBeside) {
        if (name.size() > trace.size() + 1 && name.front() == '.' && name.ends_with(trace)) {
            return path.parent_path() / name.substr(1, name.size() - 1 - trace.size());
        }
    }
    return {};
}

bool is_lock(const fs::path& path) {
    return has_part(path.filename().string(), "shardweld-lock");
}

bool holds_old_model(const fs::path& path) {
    return path.filename().string().ends_with("shardweld-old");
}

/// Traces by target, in the order of their paths. What is a trace is not looked into.
void find_traces(const fs::path& directory, std::set<fs::path>& traces,
                 std::vector<fs::path>& unseen) {
    std::vector<fs::path> below;
    const auto failure = error_of([&] {
        for (const fs::directory_entry& entry : io::entries_of(directory)) {
            std::error_code ignored;
            if (!target_of(entry.path()).empty()) {
                traces.insert(entry.path());
            } else if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) {
                below.push_back(entry.path());
            }
        }
    });
    if (failure) {
        unseen.push_back(directory);
    }
    for (const fs::path& one : below) {
        find_traces(one, traces, unseen);
    }
}

bool is_of_this_user(const fs::path& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

void remove(const Abandoned& found) {
    if (is_lock(found.path) && !found.path.filename().string().ends_with(".stale")) {
        return;
    }
    if (found.path.filename() == kPartialTrace && holds_work(found.path)) {
        move_back(found.target);
    }
    const io::Directory above(found.path.parent_path());
    io::remove_below(above, found.path.filename());
}

/// What is to be done with something that no run holds.
void decide(Abandoned& found, bool is_young, bool is_dry_run) {
    if (!is_of_this_user(found.path)) {
        found.fate = Fate::kept;
        found.why = "it belongs to another user";
    } else if (holds_old_model(found.path)) {
        found.fate = Fate::kept;
        found.why =
            "it is the model that a run was replacing: remove it if nobody needs it, or "
            "give it the name " +
            found.target.string() + " back";
    } else if (is_young) {
        found.fate = Fate::young;
        found.why = "it was written to too short a time ago";
    } else {
        found.fate = is_dry_run ? Fate::listed : Fate::removed;
    }
}

void give_all(const std::vector<Abandoned*>& traces, Fate fate, const std::string& why) {
    for (Abandoned* const found : traces) {
        found->fate = fate;
        found->why = why;
    }
}

/// Under the target's lock, whose file goes with it.
void remove_all(const std::vector<Abandoned*>& traces, const fs::path& target, const Holder& own) {
    std::optional<TargetLock> lock;
    if (const auto failure = error_of([&] { lock.emplace(target, own); })) {
        give_all(traces, failure->code() == ErrorCode::locked ? Fate::live : Fate::failed,
                 failure->what());
        return;
    }
    for (Abandoned* const found : traces) {
        const auto failure = error_of([&] { remove(*found); });
        if (failure) {
            give_all({found}, Fate::failed, failure->what());
        }
    }
}

/// All traces of one target.
void settle_target(const std::vector<Abandoned*>& traces, double older_than_s, bool is_dry_run,
                   const Holder& own) {
    const fs::path& target = traces.front()->target;
    double youngest_s = traces.front()->age_s;
    for (const Abandoned* const found : traces) {
        youngest_s = std::min(youngest_s, found->age_s);
    }
    for (const fs::path& lock : {beside(target, kLockTrace), target / kLockTrace}) {
        const Holder holder = holder_in(lock).value_or(Holder());
        const bool is_elsewhere = !holder.host.empty() && holder.host != own.host;
        if (is_elsewhere && youngest_s < kSilence_s) {
            give_all(traces, Fate::live, name_of(holder) + " may be writing it");
            return;
        }
        if (const auto held = error_of([&] { require_free(lock, target, own); })) {
            give_all(traces, Fate::live, held->what());
            return;
        }
    }
    std::vector<Abandoned*> leaving;
    for (Abandoned* const found : traces) {
        decide(*found, youngest_s < older_than_s, is_dry_run);
        if (found->fate == Fate::removed) {
            leaving.push_back(found);
        }
    }
    if (leaving.size() == traces.size()) {
        remove_all(leaving, target, own);
    } else if (!leaving.empty()) {
        give_all(leaving, Fate::kept, "another trace of the same run is kept");
    }
}

/// What becomes of traces, one target's after the other's.
std::vector<Abandoned> decide_fates(const std::set<fs::path>& traces, double older_than_s,
                                    bool is_dry_run) {
    std::vector<Abandoned> all;
    for (const fs::path& path : traces) {
        Abandoned& found = all.emplace_back();
        found.path = path;
        found.target = target_of(path);
        const DiskUse use = disk_use(path);
        found.bytes = use.bytes;
        found.age_s = std::max(0.0, std::difftime(std::time(nullptr), use.last_write));
    }
    std::ranges::stable_sort(all, {}, &Abandoned::target);
    const Holder own = this_process();
    for (auto at = all.begin(); at != all.end();) {
        std::vector<Abandoned*> of_target;
        for (const fs::path target = at->target; at != all.end() && at->target == target; ++at) {
            of_target.push_back(&*at);
        }
        settle_target(of_target, older_than_s, is_dry_run, own);
    }
    return all;
}

/// Those that lie beside a target.
void find_beside(const fs::path& target, std::set<fs::path>& traces) {
    for (const char* const trace : {kPartialTrace, kOldTrace, kLockTrace}) {
        if (const fs::path path = beside(target, trace); io::kind_at(path) != io::FileKind::none) {
            traces.insert(path);
        }
    }
}

}  // namespace

std::vector<Abandoned> clean(const fs::path& directory, double older_than_s, bool is_dry_run,
                             std::vector<fs::path>& unseen) {
    const fs::path below = io::resolved(directory);
    if (!io::is_directory(below)) {
        throw Error(ErrorCode::not_found, "there is no directory " + below.string(),
                    "name the directory that holds the targets");
    }
    std::set<fs::path> traces;
    find_traces(below, traces, unseen);
    find_beside(below, traces);
    return decide_fates(traces, older_than_s, is_dry_run);
}

}  // namespace shardweld::publish
