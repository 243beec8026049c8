#include "target.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/path.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "appear.hpp"
#include "inside.hpp"
#include "lock_file.hpp"
#include "model_tree.hpp"
#include "own_work.hpp"

namespace shardweld::publish {

namespace {

/// Makes a directory and those above it; adds what it made to `made`, outermost first, also when
/// it fails. Error(io), Error(space).
void make_directories(const fs::path& directory, std::vector<fs::path>& made) {
    std::error_code ignored;
    if (directory.empty() || fs::is_directory(directory, ignored)) {
        return;
    }
    if (directory.has_relative_path()) {
        make_directories(directory.parent_path(), made);
    }
    // Written down first: what has been done must be known, also when memory runs out.
    made.push_back(directory);
    if (::mkdir(directory.c_str(), 0777) == 0) {
        return;
    }
    const int error = errno;
    made.pop_back();
    if (error != EEXIST || !fs::is_directory(directory, ignored)) {
        io::throw_errno(error, "create directory", directory);
    }
}

/// Removes them again, innermost first, where others have put nothing there.
void remove_directories(std::vector<fs::path>& made) noexcept {
    for (; !made.empty(); made.pop_back()) {
        (void)::rmdir(made.back().c_str());
    }
}

bool is_there(const fs::path& path) {
    return io::kind_at(path) != io::FileKind::none;
}

/// Whether the target is the directory that this journal is of.
bool is_published(const fs::path& target, const fs::path& journal) {
    return is_there(target) && is_there(journal / kNumber) &&
           io::read_text(journal / kNumber) == number_of(target);
}

bool may_hold_work(const fs::path& partial) noexcept {
    bool holds = true;
    (void)mpi::error_of([&] { holds = holds_work(partial); });
    return holds;
}

}  // namespace

PartialDirectory PartialDirectory::create(const TargetRequest& request) {
    PartialDirectory made;
    made.target_ = checked_target(request);
    made.may_overwrite_ = request.overwrite;
    make_directories(made.target_.parent_path(), made.made_);
    made.take_lock(request);
    // Another run may have finished between the check and the lock.
    checked_target(request);
    made.restore_old();
    made.make_partial(request.resume);
    return made;
}

fs::path PartialDirectory::journal() const {
    return partial_ / kJournal;
}

/// Where the journal lies while its directory gets the target's name.
fs::path PartialDirectory::journal_aside() const {
    return target_.parent_path() / ("." + target_.filename().string() + ".shardweld-journal");
}

/// The lock beside the target, or the one in it for who may not write beside it and for mount
/// points, which have no place beside them. A run holds one of them and only then looks at the
/// other: of two runs at least one sees the other.
void PartialDirectory::take_lock(const TargetRequest& request) {
    const fs::path beside = lock_beside(target_);
    const Holder own = this_process(request.job, request.job_restarts);
    const fs::path inside = target_ / kLockInside;
    const bool exists = is_there(target_);
    lock_path_ = beside;
    if (!exists || !is_mount_point(target_)) {
        lock_fd_ = try_lock_file(beside, target_, own);
    }
    const bool is_beside = lock_fd_ >= 0;
    if (!is_beside && exists) {
        lock_path_ = inside;
        lock_fd_ = try_lock_file(inside, target_, own);
    }
    if (lock_fd_ < 0) {
        const std::string reason = text_of_errno(errno);
        throw Error(ErrorCode::io,
                    "cannot create " + lock_path_.string() + ": no right to write there: " + reason,
                    "choose another --target_dir");
    }
    require_free(is_beside ? inside : beside, target_, own);
    is_inside_ =
        !is_beside || (exists && (contains_current_directory(target_) ||
                                  (request.resume && holds_work(target_ / kPartialInside))));
    partial_ = is_inside_ ? target_ / kPartialInside : partial_beside(target_);
    is_held_ = true;
}

/// A run that was killed between two renames has left the old model aside: it gets its name back,
/// unless the new one has it.
void PartialDirectory::restore_old() {
    const fs::path old = old_beside(target_);
    if (is_inside_ || fs::is_symlink(old) || !io::is_directory(old)) {
        return;
    }
    if (!is_there(target_)) {
        const io::Directory parent(target_.parent_path());
        Renames().rename({parent, old.filename()}, {parent, target_.filename()});
        notes_.push_back("gave " + old.string() + " the name " + target_.string() +
                         " back: an earlier run was killed while replacing it");
    } else if (is_published(target_, journal_aside())) {
        remove_left({target_.parent_path(), old.filename()});
    } else {
        notes_.push_back(old.string() + " is what an earlier run replaced in " + target_.string() +
                         " and could not remove: remove it if nobody needs it");
    }
}

/// A run that was killed while it published has left its journal beside the partial directory.
void PartialDirectory::settle_journal_aside(bool resume) {
    const fs::path aside = journal_aside();
    if (is_inside_ || !is_there(aside)) {
        return;
    }
    std::error_code ignored;
    if (is_published(target_, aside)) {
        notes_.push_back(
            target_.string() +
            " is complete: an earlier run was killed before it removed what it had replaced");
    } else if (resume && is_there(partial_) && !is_there(journal())) {
        // What it tells is checked anyway.
        (void)::rename(aside.c_str(), journal().c_str());
    }
    fs::remove_all(aside, ignored);
}

void PartialDirectory::make_partial(bool resume) {
    settle_journal_aside(resume);
    std::error_code failed;
    const bool is_work = holds_work(partial_);
    if (resume && is_work) {
        require_own_work(partial_, owner_of_new_files(lock_fd_));
        if (is_inside_) {
            move_back(target_);
        }
        is_taken_up_ = true;
        hold();
        return;
    }
    if (fs::exists(fs::symlink_status(partial_, failed))) {
        fs::remove_all(partial_, failed);
        if (failed) {
            io::throw_errno(failed.value(), "remove what a dead run left:", partial_);
        }
        notes_.push_back("removed " + partial_.string() + ", left by a run that did not finish" +
                         (is_work ? ", with what it had written (--restart)" : ""));
    }
    if (::mkdir(partial_.c_str(), 0777) != 0) {
        io::throw_errno(errno, "create directory", partial_);
    }
    hold();
}

/// From now on all is done below these descriptors.
void PartialDirectory::hold() {
    const io::Directory parent(target_.parent_path());
    const io::Directory holder = is_inside_ ? io::Directory(parent, target_.filename()) : parent;
    held_ = HeldDirectories{parent, holder, io::Directory(holder, partial_.filename())};
}

void PartialDirectory::keep_only(const std::set<fs::path>& files) {
    std::vector<fs::path> others;
    for (const fs::directory_entry& entry : io::entries_below(partial_)) {
        const fs::path name = entry.path().lexically_relative(partial_);
        if (*name.begin() != kJournal && !entry.is_directory() && !files.contains(name)) {
            others.push_back(entry.path());
        }
    }
    for (const fs::path& path : others) {
        fs::remove(path);
    }
}

void PartialDirectory::note_publishing(const PartialDirectory& other) const {
    const fs::path path = journal() / kPublished;
    const std::string noted = is_there(path) ? io::read_text(path) : "";
    io::write_text(path, noted + number_of(other.partial_) + "\n", true);
}

bool was_published(const fs::path& target, const fs::path& first) {
    const fs::path whole = io::resolved(target);
    if (!io::is_directory(whole)) {
        return false;
    }
    const auto partials = unfinished_work(first);
    return std::any_of(partials.begin(), partials.end(), [&](const fs::path& partial) {
        const fs::path path = partial / kJournal / kPublished;
        if (!holds_work(partial) || !is_there(path)) {
            return false;
        }
        const std::string text = io::read_text(path);
        const auto numbers = split(text, '\n');
        return std::ranges::count(numbers, number_of(whole)) > 0;
    });
}

void PartialDirectory::forget_work() const noexcept {
    std::error_code ignored;
    fs::remove_all(journal(), ignored);
}

void PartialDirectory::discard() noexcept {
    if (std::exchange(is_held_, false) && held_ && !may_hold_work(partial_)) {
        // Not another file that has taken its name.
        (void)mpi::error_of([&] {
            if (held_->partial.is_at(held_->holder, partial_.filename())) {
                io::remove_below(held_->holder, partial_.filename());
            }
        });
    }
    unlock_file(std::exchange(lock_fd_, -1), lock_path_);
    remove_directories(made_);
}

PartialDirectory::PartialDirectory(PartialDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      partial_(std::move(other.partial_)),
      held_(std::move(other.held_)),
      lock_path_(std::move(other.lock_path_)),
      is_inside_(other.is_inside_),
      is_held_(std::exchange(other.is_held_, false)),
      may_overwrite_(other.may_overwrite_),
      is_taken_up_(other.is_taken_up_),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      made_(std::move(other.made_)),
      notes_(std::move(other.notes_)) {}

PartialDirectory::~PartialDirectory() {
    discard();
}

}  // namespace shardweld::publish
