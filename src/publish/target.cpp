#include "target.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error_of.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "appear.hpp"
#include "model_tree.hpp"
#include "traces.hpp"

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
    (void)error_of([&] { holds = holds_work(partial); });
    return holds;
}

constexpr const char* kNonceName = ".nonce";
constexpr Bytes kMaxNonce = 256;

/// Unlike any other run's: what another machine holds under the same path must not match.
std::string make_nonce() {
    std::random_device random;
    std::string nonce;
    for (int i = 0; i < 8; ++i) {
        nonce += std::to_string(random()) + ".";
    }
    return nonce;
}

}  // namespace

PartialDirectory PartialDirectory::create(const fs::path& named,
                                          const std::vector<fs::path>& inputs, bool overwrite,
                                          bool resume, const Holder& holder) {
    PartialDirectory made(checked_target(named, inputs, overwrite, resume), overwrite);
    make_directories(made.target_.parent_path(), made.made_);
    made.lock_.emplace(made.target_, holder);
    made.is_inside_ =
        made.lock_->is_inside() ||
        (is_there(made.target_) && (contains_current_directory(made.target_) ||
                                    (resume && holds_work(made.target_ / kPartialTrace))));
    made.partial_ =
        made.is_inside_ ? made.target_ / kPartialTrace : beside(made.target_, kPartialTrace);
    // Another run may have finished between the check and the lock.
    checked_target(named, inputs, overwrite, resume);
    if (!made.is_inside_) {
        made.settle_old();
        made.settle_journal(resume);
    }
    made.make_partial(resume);
    return made;
}

PartialDirectory::PartialDirectory(fs::path target, bool overwrite)
    : target_(std::move(target)), may_overwrite_(overwrite) {}

fs::path PartialDirectory::journal() const {
    return partial_ / kJournal;
}

/// A run that was killed between two renames has left the old model aside: it gets its name back,
/// unless the new one has it.
void PartialDirectory::settle_old() {
    const fs::path old = beside(target_, kOldTrace);
    if (fs::is_symlink(old) || !io::is_directory(old)) {
        return;
    }
    if (!is_there(target_)) {
        const io::Directory parent(target_.parent_path());
        Renames().rename({parent, old.filename()}, {parent, target_.filename()});
        notes_.push_back("gave " + old.string() + " the name " + target_.string() +
                         " back: an earlier run was killed while replacing it");
    } else if (is_published(target_, beside(target_, kJournalTrace))) {
        remove_left({target_.parent_path(), old.filename()});
    } else {
        notes_.push_back(old.string() + " is what an earlier run replaced in " + target_.string() +
                         " and could not remove: remove it if nobody needs it");
    }
}

/// A run that was killed while it published has left its journal beside the partial directory.
void PartialDirectory::settle_journal(bool resume) {
    const fs::path aside = beside(target_, kJournalTrace);
    if (!is_there(aside)) {
        return;
    }
    std::error_code ignored;
    if (is_published(target_, aside)) {
        notes_.push_back(
            target_.string() +
            " is complete: an earlier run was killed before it removed what it had replaced");
    } else if (resume && is_there(partial_) && !is_there(journal())) {
        // A journal that is not this run's does no harm: its header is compared before it is used.
        (void)::rename(aside.c_str(), journal().c_str());
    }
    fs::remove_all(aside, ignored);
}

void PartialDirectory::make_partial(bool resume) {
    std::error_code failed;
    const bool is_work = holds_work(partial_);
    if (resume && is_work) {
        require_own_work(partial_, owner_of_new_files(lock_->fd()));
        if (is_inside_) {
            move_back(target_);
        }
        is_taken_up_ = true;
        open_directories();
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
    open_directories();
}

/// From now on all is done below these descriptors.
void PartialDirectory::open_directories() {
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
    return std::ranges::any_of(partials, [&](const fs::path& partial) {
        const fs::path path = partial / kJournal / kPublished;
        if (!holds_work(partial) || !is_there(path)) {
            return false;
        }
        const std::string text = io::read_text(path);
        const auto numbers = split(text, '\n');
        return contains(numbers, number_of(whole));
    });
}

void PartialDirectory::forget_work() const noexcept {
    std::error_code ignored;
    fs::remove_all(journal(), ignored);
}

PartialDirectory::~PartialDirectory() {
    if (lock_ && lock_->is_held() && held_ && !may_hold_work(partial_)) {
        // Not another file that has taken its name.
        (void)error_of([&] {
            if (held_->partial.is_at(held_->holder, partial_.filename())) {
                io::remove_below(held_->holder, partial_.filename());
            }
        });
    }
    lock_.reset();
    remove_directories(made_);
}

void PartialDirectory::commit(const io::Identities& files, bool sync) {
    Renames renames;
    std::optional<NameInDirectory> old;
    const auto failure = error_of([&] { publish(renames, old, files, sync); });
    if (failure) {
        const std::string left = renames.undo();
        if (left.empty()) {
            throw Error(*failure);
        }
        // What lies where is for people to see to: nothing is removed.
        made_.clear();
        lock_->release();
        throw Error(failure->code(), failure->what(), "put these back by hand: " + left);
    }
    made_.clear();
    if (old) {
        remove_left(*old);
    }
    if (is_inside_) {
        remove_left({held_->holder, partial_.filename()});
    }
    remove_left({held_->parent, beside(target_, kJournalTrace).filename()});
    if (is_inside_ && !lock_->is_inside()) {
        remove_left({held_->holder, kLockTrace});  // of a run that is gone
    }
    lock_->release();
}

/// The directory that has the target's name when the model is there.
const io::Directory& PartialDirectory::published() const {
    return is_inside_ ? held_->holder : held_->partial;
}

/// What was written is held against its names before they are changed, and again behind that: what
/// has the target's name is what was written.
void PartialDirectory::publish(Renames& renames, std::optional<NameInDirectory>& old,
                               const io::Identities& files, bool sync) {
    for (const io::Directory* one : {&held_->parent, &held_->holder, &held_->partial}) {
        one->require_same();
    }
    require_replaceable({held_->parent, target_.filename()});
    require_files(held_->partial, files);
    require_no_others(held_->partial, files);
    if (sync) {
        sync_tree(held_->partial);
    }
    old = is_inside_ ? move_files(renames, held_->partial, held_->holder, files, sync)
                     : publish_beside(renames);
    held_->parent.require_same();
    held_->holder.require_same();
    if (!published().is_at(held_->parent, target_.filename())) {
        throw Error(ErrorCode::target,
                    target_.string() +
                        " is not the directory that this run wrote: another program replaced it",
                    "keep other programs away from the target, and start again");
    }
    require_files(published(), files);
    if (sync) {
        if (is_inside_) {
            sync_tree(held_->holder);
        }
        io::sync(held_->parent);
    }
}

/// Files that others put there since the run began are not replaced unasked.
void PartialDirectory::require_replaceable(const NameInDirectory& place) const {
    const auto found = io::identity_at(place.directory, place.name);
    if (!may_overwrite_ && found && S_ISDIR(found->mode) &&
        has_content({place.directory, place.name})) {
        throw Error(ErrorCode::target,
                    "the target directory " + target_.string() +
                        " was empty when this merge began and is not now",
                    "move away what another program put there, or replace it with --overwrite");
    }
    // Files in a target that stays are replaced one by one, and others' are left.
    if (may_overwrite_ && !is_inside_ && found && S_ISDIR(found->mode)) {
        require_model_only(place.path(), target_);
    }
}

/// The journal steps aside: it is no part of the model.
std::optional<NameInDirectory> PartialDirectory::publish_beside(Renames& renames) {
    const NameInDirectory journal{held_->partial, kJournal};
    if (io::identity_at(journal.directory, journal.name)) {
        io::write_text(this->journal() / kNumber,
                       std::to_string(io::identity_of(held_->partial.fd(), partial_).inode), false);
        renames.rename(journal, {held_->parent, beside(target_, kJournalTrace).filename()});
    }
    auto old = replace_directory(renames, {held_->parent, partial_.filename()},
                                 {held_->parent, target_.filename()});
    if (old) {
        require_replaceable(*old);
    }
    return old;
}

/// The new target is in place: something old that cannot be removed is worth a note only.
void PartialDirectory::remove_left(const NameInDirectory& left) {
    if (const auto failed = error_of([&] { io::remove_below(left.directory, left.name); })) {
        notes_.push_back("cannot remove " + left.path().string() +
                         ", which is no longer needed: " + failed->what());
    }
}

io::Directory check_same_directory(mpi::Comm& comm, const fs::path& partial) {
    const fs::path path = partial / kNonceName;
    std::string nonce = mpi::collectively_get(comm, [&] {
        std::string text;
        if (comm.rank() == 0) {
            text = make_nonce();
            io::write_text(path, text, false);
        }
        return text;
    });
    const std::string expected = mpi::share(comm, 0, [&] { return nonce; });
    // Opened while rank 0 waits for all to have read.
    io::Directory directory = mpi::collectively_get(comm, [&] {
        io::Directory seen(partial);
        std::string found;
        try {
            found = io::read_text(path, kMaxNonce);
        } catch (const Error& error) {
            // No such file there, or another one. What cannot be read says nothing.
            if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::corrupt) {
                throw;
            }
        }
        if (found != expected) {
            throw Error(ErrorCode::launch,
                        "the target is not the same directory for all ranks: " + partial.string() +
                            " on host " + comm.host() + " is not what rank 0 made",
                        "choose a --target_dir on a shared file system");
        }
        return seen;
    });
    mpi::on_first(comm, [&] { fs::remove(path); });
    return directory;
}

}  // namespace shardweld::publish
