// The output directory: what may become one, the hidden partial directory beside it, and the step
// that makes it visible.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "io/directory.hpp"
#include "mpi/comm.hpp"

#include "lock_file.hpp"

namespace shardweld::publish {

class Renames;
struct NameInDirectory;

/// The target, absolute and with links resolved, if a run may write it; nothing is written. Local.
/// `inputs` are directories that are read, `resume`: what an earlier run left is taken up, not
/// removed. Error(target): it is a file, exists with content without `overwrite` (what a run to
/// `resume` has published of its own is none), would be replaced with `overwrite` and holds what is
/// no model's (model_tree.hpp), or was put aside by a run killed while it replaced it, is an input
/// or contains one (it may lie below the checkpoint); Error(io): this user may not write there.
fs::path checked_target(const fs::path& named, const std::vector<fs::path>& inputs, bool overwrite,
                        bool resume = false);

/// Requires that files which are read do not lie in the target, through links either. Local.
/// Error(target), Error(io).
void require_apart(const fs::path& target, const std::vector<fs::path>& files);

/// The directory, of those that exist, in which a target's partial directory is made or above
/// it. Local. Error(io).
fs::path holder_of(const fs::path& target);

/// Where the work of a run that did not finish lies, if anywhere: beside the target or in it.
/// Local.
std::vector<fs::path> unfinished_work(const fs::path& target);

/// Whether a run that did not finish left work for `first`, and had made `target` appear, which is
/// as it was then. Local.
bool was_published(const fs::path& target, const fs::path& first);

/// Bytes on the disk of what a run that did not finish left for this target: they are used again or
/// given back. Local; 0 when nothing is there.
Bytes bytes_left_behind(const fs::path& target, bool resume);

/// A run's right to write the target. One rank holds it; everything is written into path(), which
/// commit() turns into the target. Destroyed without commit, it removes what it made, unless the
/// journal in it tells of blocks that a later run can take up.
class PartialDirectory {
  public:
    /// Checks the target, makes missing parents, takes the lock and makes an empty partial
    /// directory, or takes up the one that is there: the hidden sibling `.NAME.shardweld-partial`,
    /// or one inside the target where no sibling can be made or the target cannot be replaced (a
    /// mount point, the current directory). Files that a run to resume had published inside are
    /// taken back first. Local. Error(target); Error(locked) when another run holds the lock beside
    /// the target or the one in it, naming its host and process; Error(io), Error(space). The rest
    /// as for checked_target.
    static PartialDirectory create(const fs::path& named, const std::vector<fs::path>& inputs,
                                   bool overwrite, bool resume = false,
                                   const Holder& holder = this_process());

    [[nodiscard]] const fs::path& path() const { return partial_; }
    [[nodiscard]] const fs::path& target() const { return target_; }
    /// The directory in it for the journal, which is never published.
    [[nodiscard]] fs::path journal() const;
    /// Whether an earlier run's work is in it.
    [[nodiscard]] bool is_taken_up() const { return is_taken_up_; }
    /// What was found and done, for people ("removed what a dead run left ...").
    [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
    /// The notes that were not taken before.
    [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

    /// Removes all files but these (relative paths) and the journal. Error(io).
    void keep_only(const std::set<fs::path>& files);

    /// Writes into this one's journal that `other`, an output of the same run, is about to appear.
    /// Error(io), Error(space).
    void note_publishing(const PartialDirectory& other) const;

    /// Forgets what is done: destroyed without commit, nothing is kept.
    void forget_work() const noexcept;

    /// Makes the directory visible under the target's name; with `sync` directories are fsynced
    /// before and after (files are synced by who writes them). An old target is exchanged and
    /// removed, when all files are known to be there. Error(target) when the target has content by
    /// now and may not be overwritten, when the target's parent or the partial directory was
    /// renamed or replaced, or got files of others; Error(io), also when a file is not the one that
    /// was written: everything is as it was before, or the message says what is not.
    void commit(const io::Identities& files, bool sync);

    PartialDirectory(PartialDirectory&& other) = default;
    PartialDirectory& operator=(PartialDirectory&&) = delete;
    PartialDirectory(const PartialDirectory&) = delete;
    PartialDirectory& operator=(const PartialDirectory&) = delete;
    ~PartialDirectory();

  private:
    PartialDirectory(fs::path target, bool overwrite);
    void settle_old();
    void settle_journal(bool resume);
    void make_partial(bool resume);
    void open_directories();
    [[nodiscard]] const io::Directory& published() const;
    void require_replaceable(const NameInDirectory& place) const;
    std::optional<NameInDirectory> publish_beside(Renames& renames);
    void publish(Renames& renames, std::optional<NameInDirectory>& old, const io::Identities& files,
                 bool sync);
    void remove_left(const NameInDirectory& left);

    /// The run's directories, held open: a rename of one of them changes nothing.
    struct HeldDirectories {
        io::Directory parent;  ///< of the target
        io::Directory holder;  ///< of the partial directory: that parent, or the target
        io::Directory partial;
    };

    fs::path target_;
    std::vector<fs::path> made_;  ///< parents that this run created
    std::optional<TargetLock> lock_;
    bool is_inside_ = false;  ///< the partial directory lies in the target
    fs::path partial_;
    std::optional<HeldDirectories> held_;
    bool may_overwrite_ = false;
    bool is_taken_up_ = false;
    std::vector<std::string> notes_;
};

/// Collective. Every rank passes rank 0's partial directory; Error(launch) unless they all see the
/// same directory there. That directory, so that a rank writes into no other when rank 0, and with
/// it the lock, is gone.
io::Directory check_same_directory(mpi::Comm& comm, const fs::path& partial);

}  // namespace shardweld::publish
