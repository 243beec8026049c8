#include "dropping.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "app/messages/progress.hpp"
#include "app/survey/input.hpp"
#include "core/text.hpp"
#include "execute/listeners/consumption.hpp"
#include "execute/listeners/dropper.hpp"
#include "io/errno.hpp"
#include "io/holes.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/strategy.hpp"
#include "publish/appear.hpp"
#include "publish/dropping.hpp"
#include "publish/traces.hpp"
#include "shardweld/error.hpp"

#include "tied.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kByHand =
    "leave --drop_consumed out, and remove the checkpoint when the target is verified";

// Headers, and what is carried in another form or belongs to the ranks that saved it.
constexpr Bytes kLittleElse = Bytes{1} << 20U;
constexpr Bytes kSmallPart = 16;

[[noreturn]] void refuse_to_drop(ErrorCode code, const std::string& why,
                                 const char* hint = kByHand) {
    throw Error(code, "--drop_consumed: " + why, hint);
}

bool is_moved_as_it_is(const plan::Target& target) {
    return !target.fold && target.folded.empty() && !target.mix && !target.encode && !target.decode;
}

/// Weights and states that the output does not have would be lost with their files. Where all are
/// taken, what is left are counters and rows that fill buckets up.
void require_all_carried(const plan::Ledger& ledger, bool takes_states) {
    Bytes ignored = 0;
    const catalogue::Ignored* largest = nullptr;
    for (const catalogue::Ignored& row : ledger.ignored) {
        ignored += row.bytes;
        largest = largest == nullptr || row.bytes > largest->bytes ? &row : largest;
    }
    const Bytes most = std::max(ledger.stored / kSmallPart, takes_states ? kLittleElse : 0);
    if (largest != nullptr && ignored > most) {
        refuse_to_drop(
            ErrorCode::unsupported,
            human_bytes(ignored) + " of the checkpoint are not carried over, such as " +
                printable(largest->pattern) + " (" + largest->reason + ")",
            "take the optimizer's states, too (--state all), or leave --drop_consumed out and "
            "remove the checkpoint by hand");
    }
}

void require_plain(const Planned& planned) {
    const Output& output = planned.first();
    const bool is_plain = std::ranges::all_of(output.plan.targets, is_moved_as_it_is);
    if (planned.outputs.size() > 1 || planned.factors || output.measured || !is_plain) {
        refuse_to_drop(
            ErrorCode::unsupported,
            "adapters that are folded and weights that are quantised or dequantised need parts "
            "of the checkpoint again");
    }
    if (plan::hidden_files(output.plan.visibility, planned.input.files) > 0) {
        refuse_to_drop(ErrorCode::unsupported, "some ranks do not see all files of the checkpoint");
    }
    require_all_carried(output.session.report.ledger,
                        output.session.options.state == formats::TakenState::all);
}

/// Blobs in a cache of the Hub are shared by snapshots.
void require_no_cache(const fs::path& directory) {
    bool is_cache = false;
    for (const fs::path& part : directory) {
        is_cache = is_cache || part.string().starts_with("models--");
    }
    if (is_cache) {
        refuse_to_drop(ErrorCode::unsupported,
                       directory.string() + " lies in the Hub's cache, whose files are shared",
                       "remove it there with the Hub's own client: hf cache");
    }
}

void require_target_beside(const fs::path& target) {
    if (publish::holder_of(target) == io::resolved(target)) {
        refuse_to_drop(ErrorCode::target,
                       target.string() +
                           " is a mount point, the current directory or lies where nothing "
                           "can be made, so that the output does not appear at once",
                       "name a new directory below it");
    }
}

/// The file is the checkpoint's own, and nobody else's.
void require_own_file(const fs::path& path, const fs::path& directory) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
        io::throw_errno(errno, "examine", path);
    }
    std::string why;
    if (!S_ISREG(status.st_mode)) {
        why = "is a link or no plain file";
    } else if (status.st_nlink != 1) {
        why = "has other names (hard links), which keep its space";
    } else if (!io::is_within(io::resolved(path), directory)) {
        why = "lies outside the checkpoint's directory";
    } else if (::access(path.c_str(), W_OK) != 0 ||
               ::access(path.parent_path().c_str(), W_OK | X_OK) != 0) {
        why = "may not be written or removed by this user";
    } else if (io::is_open_elsewhere(path)) {
        why = "is open in another program";
    }
    if (!why.empty()) {
        refuse_to_drop(ErrorCode::io, path.string() + " " + why);
    }
}

/// Why a file stays though parts of it are in the output; "" where it may go.
std::string why_left(const catalogue::File& file, Bytes used) {
    if (used == 0) {
        return "nothing of it is in the output";
    }
    const Bytes rest = file.size - std::min(used, file.size);
    return rest > std::max(kLittleElse, file.size / kSmallPart)
               ? human_bytes(rest) + " of its " + human_bytes(file.size) + " are not in the output"
               : "";
}

Droppable droppable_of(const Planned& planned) {
    const Input& input = planned.input;
    const fs::path directory = io::resolved(input.directory);
    require_no_cache(directory);
    require_target_beside(planned.first().session.output.directory);
    if (!io::can_punch(directory)) {
        refuse_to_drop(ErrorCode::unsupported,
                       "the file system of " + directory.string() +
                           " does not give parts of files back (FALLOC_FL_PUNCH_HOLE)");
    }
    const auto used = execute::Consumption(planned.first().plan).used_of_files(input.files.size());
    Droppable droppable;
    for (std::size_t at = 0; at < input.files.size(); ++at) {
        const catalogue::File& file = input.files[at];
        const std::string why = why_left(file, used[at]);
        droppable.files.push_back(why.empty());
        if (!why.empty()) {
            droppable.left.push_back(file.path + ": " + why);
            continue;
        }
        require_own_file(directory / file.path, directory);
        droppable.names.push_back(file.path);
        droppable.bytes += file.size;
        droppable.carried += used[at];
    }
    if (droppable.names.empty()) {
        refuse_to_drop(ErrorCode::unsupported, "no file can go: " + droppable.left.front());
    }
    return droppable;
}

fs::path checkpoint_of(const Planned& planned) {
    return io::resolved(planned.input.directory);
}

/// The note goes last: as long as it is there, a later run goes on here. Directories that are empty
/// then go, too.
void remove_files(const publish::DroppingNote& note, const fs::path& checkpoint) {
    for (const std::string& name : note.files) {
        fs::remove(checkpoint / name);
        for (fs::path above = fs::path(name).parent_path(); !above.empty();
             above = above.parent_path()) {
            (void)::rmdir((checkpoint / above).c_str());
        }
    }
    io::sync_directory(checkpoint);
    publish::remove_note(checkpoint);
}

/// Where a note of this target lies below a directory; "" if nowhere.
fs::path noted_below(const fs::path& given, const fs::path& target) {
    const auto is_it = [&](const fs::path& directory) {
        const auto note = publish::note_in(directory);
        return note && note->target == target && publish::has_appeared(*note);
    };
    if (!io::is_directory(given)) {
        return {};
    }
    if (is_it(given)) {
        return given;
    }
    for (const fs::directory_entry& entry : io::entries_below(given)) {
        if (entry.path().filename() == publish::kDroppingNote &&
            is_it(entry.path().parent_path())) {
            return entry.path().parent_path();
        }
    }
    return {};
}

}  // namespace

Droppable find_droppable(const Planned& planned) {
    mpi::Comm& comm = planned.first().session.comm;
    mpi::collectively(comm, [&] { require_plain(planned); });
    return mpi::share(comm, 0, [&] { return droppable_of(planned); });
}

void prove_before_dropping(Planned& planned, const mpi::WhyStop& why_stop) {
    Session& session = planned.first().session;
    plan::Plan& plan = planned.first().plan;
    if (!planned.input.has_holes) {
        execute::RunOptions options;
        options.write = false;
        options.why_stop = why_stop;
        options.on_progress = moving_shown("reading all of it before any is dropped", plan,
                                           session.comm.rank(), session.progress, session.log);
        const auto result = execute::run(session.comm, plan, source_of(session, planned.input),
                                         fs::path(), options);
        session.progress.end();
        report_what_was_read(session, planned.input, why_stop);
        require_equal_replicas(session.comm, result, plan, planned.input.files,
                               planned.first().model.bound.doubt);
        session.watch.lap("prove");
    }
    std::ranges::fill(plan.sample_every, 0);
    planned.input.is_checked = false;
    planned.input.is_dropped = true;
}

void note_dropping(const Planned& planned, const publish::PartialDirectory& partial) {
    const Droppable& droppable = *planned.droppable;
    planned.first().session.report.dropped = {droppable.names.size(), droppable.bytes,
                                              droppable.carried, droppable.left};
    // Who finds the output's bytes on the disk must find its names there, too.
    publish::sync_tree(partial.path());
    io::sync_directory(partial.path().parent_path());
    publish::write_note({partial.target(), partial.path(), publish::number_of(partial.path()),
                         false, droppable.names},
                        checkpoint_of(planned));
}

void take_note_back(const Planned& planned, const publish::PartialDirectory& partial) noexcept {
    (void)mpi::error_of([&] {
        // Once the target is there, the partial directory is not.
        if (io::is_directory(partial.path()) && !publish::has_dropped(partial.path())) {
            publish::remove_note(checkpoint_of(planned));
        }
    });
}

void drop_behind(const Planned& planned, const io::Directory& directory, execute::RunOptions& run) {
    run.flush_bytes = kDropEvery;
    const auto dropper = std::make_shared<std::optional<execute::Dropper>>();
    run.on_taken_over = [&planned, &directory, dropper](const execute::RunOptions& options,
                                                        std::span<const plan::OutputRange> done) {
        const Output& output = planned.first();
        dropper->emplace(output.plan, source_of(output.session, planned.input), directory, options,
                         planned.droppable->files, output.session.comm.rank());
        (*dropper)->take_over(done);
    };
    run.on_recorded = [dropper](std::span<const execute::DoneBlock> blocks) {
        (*dropper)->drop_behind(blocks);
    };
}

void remove_dropped(const Planned& planned, const fs::path& target) {
    const fs::path checkpoint = checkpoint_of(planned);
    auto note = publish::note_in(checkpoint);
    if (!note || note->target != target) {
        return;
    }
    note->is_published = true;
    publish::write_note(*note, checkpoint);
    remove_files(*note, checkpoint);
    const Droppable& droppable = *planned.droppable;
    planned.first().session.log.info(
        "removed " + counted(droppable.names.size(), "file") + " of " + checkpoint.string() + " (" +
        human_bytes(droppable.bytes) + ")" +
        (droppable.left.empty() ? "" : "; left: " + listed(droppable.left)));
}

bool finish_dropping(const Session& session) {
    if (!session.options.drops_consumed) {
        return false;
    }
    return mpi::share(session.comm, 0, [&] {
        const fs::path target = io::resolved(session.output.directory);
        const fs::path checkpoint = noted_below(session.options.local_dir, target);
        if (!checkpoint.empty()) {
            remove_files(*publish::note_in(checkpoint), checkpoint);
            session.log.info(target.string() +
                             " is complete: an earlier run was stopped before it had removed all "
                             "that it had dropped");
        }
        return !checkpoint.empty();
    });
}

}  // namespace shardweld::app
