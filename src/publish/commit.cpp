// The last step of a merge: the partial directory gets the target's name, or nothing has changed.
#include <utility>

#include <sys/stat.h>

#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "appear.hpp"
#include "inside.hpp"
#include "lock_file.hpp"
#include "model_tree.hpp"
#include "target.hpp"

namespace shardweld::publish {

void PartialDirectory::commit(const io::Identities& files, bool sync) {
    Renames renames;
    std::optional<NameInDirectory> old;
    const auto failure = mpi::error_of([&] { publish(renames, old, files, sync); });
    if (failure) {
        const std::string left = renames.undo();
        if (left.empty()) {
            throw Error(*failure);
        }
        // What lies where is for people to see to: nothing is removed.
        made_.clear();
        unlock_file(std::exchange(lock_fd_, -1), lock_path_);
        is_held_ = false;
        throw Error(failure->code(), failure->what(), "put these back by hand: " + left);
    }
    made_.clear();
    if (old) {
        remove_left(*old);
    }
    if (is_inside_) {
        remove_left({held_->holder, partial_.filename()});
    }
    remove_left({held_->parent, journal_aside().filename()});
    if (is_inside_ && lock_path_ != target_ / kLockInside) {
        remove_left({held_->holder, kLockInside});  // of a run that is gone
    }
    unlock_file(std::exchange(lock_fd_, -1), lock_path_);
    is_held_ = false;
}

/// What was written is held against its names before they are changed, and again behind that: what
/// has the target's name is what was written.
void PartialDirectory::publish(Renames& renames, std::optional<NameInDirectory>& old,
                               const io::Identities& files, bool sync) {
    require_in_place();
    require_replaceable({held_->parent, target_.filename()});
    require_files(held_->partial, files);
    require_no_others(held_->partial, files);
    if (sync) {
        sync_tree(held_->partial);
    }
    old = is_inside_ ? move_files(renames, held_->partial, held_->holder, files, sync)
                     : publish_beside(renames);
    if (!is_inside_ && !held_->partial.is_at(held_->parent, target_.filename())) {
        throw Error(ErrorCode::target,
                    target_.string() +
                        " is not the directory that this run wrote: another program replaced it",
                    "keep other programs away from the target, and start again");
    }
    held_->parent.require_same();
    held_->holder.require_same();
    require_files(is_inside_ ? held_->holder : held_->partial, files);
    if (sync) {
        if (is_inside_) {
            sync_tree(held_->holder);
        }
        io::sync(held_->parent);
    }
}

/// Error(target) unless the directories have the names that this run means.
void PartialDirectory::require_in_place() const {
    held_->parent.require_same();
    held_->holder.require_same();
    held_->partial.require_same();
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
        renames.rename(journal, {held_->parent, journal_aside().filename()});
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
    if (const auto failed = mpi::error_of([&] { io::remove_below(left.directory, left.name); })) {
        notes_.push_back("cannot remove " + left.path().string() +
                         ", which is no longer needed: " + failed->what());
    }
}

}  // namespace shardweld::publish
