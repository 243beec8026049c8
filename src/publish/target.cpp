#include "shardweld/publish/target.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"

#include "lock_file.hpp"
#include "places.hpp"

namespace shardweld::publish {

namespace {

constexpr const char* kIndexSuffix = ".index.json";

/// mkdir -p; returns what it made, innermost first.
std::vector<fs::path> make_parents(const fs::path& directory) {
    std::vector<fs::path> missing;
    std::error_code ignored;
    for (fs::path at = directory; !at.empty() && !fs::exists(at, ignored); at = at.parent_path()) {
        missing.push_back(at);
    }
    std::reverse(missing.begin(), missing.end());
    std::vector<fs::path> made;
    for (const fs::path& path : missing) {
        if (::mkdir(path.c_str(), 0777) == 0) {
            made.push_back(path);
        } else if (errno != EEXIST) {
            io::throw_errno(errno, "create directory", path);
        }
    }
    std::reverse(made.begin(), made.end());
    return made;
}

bool contains_current_directory(const fs::path& directory) {
    std::error_code failed;
    const fs::path relative = fs::current_path(failed).lexically_relative(directory);
    return !failed && !relative.empty() && *relative.begin() != "..";
}

bool is_mount_point(const fs::path& directory) {
    struct stat inner {};
    struct stat outer {};
    return ::stat(directory.c_str(), &inner) == 0 &&
           ::stat(directory.parent_path().c_str(), &outer) == 0 && inner.st_dev != outer.st_dev;
}

/// The new directory gets the rights of the one it replaces, as far as this user may give them.
void take_over_rights(const fs::path& from, const fs::path& to) {
    struct stat status {};
    if (::stat(from.c_str(), &status) == 0) {
        (void)!::chown(to.c_str(), static_cast<uid_t>(-1), status.st_gid);
        (void)::chmod(to.c_str(), status.st_mode & 07777U);
    }
}

void sync_tree(const fs::path& directory) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
        if (entry.is_directory()) {
            io::sync_directory(entry.path());
        }
    }
    io::sync_directory(directory);
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) {
        io::throw_errno(errno, "rename " + from.string() + " to", to);
    }
}

/// Files of a directory tree, relative to it: weights first, then the rest, index files last.
std::vector<fs::path> files_in_publishing_order(const fs::path& directory) {
    std::vector<std::pair<int, fs::path>> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
        if (entry.is_regular_file()) {
            const std::string name = entry.path().filename().string();
            const int turn = name.ends_with(kIndexSuffix)     ? 2
                             : name.ends_with(".safetensors") ? 0
                                                              : 1;
            files.emplace_back(turn, entry.path().lexically_relative(directory));
        }
    }
    std::sort(files.begin(), files.end());
    std::vector<fs::path> sorted;
    sorted.reserve(files.size());
    for (auto& [turn, path] : files) {
        sorted.push_back(std::move(path));
    }
    return sorted;
}

/// Weights and indices of an older model, which would be taken for parts of the new one.
void remove_old_weights(const fs::path& directory) {
    std::vector<fs::path> indices;
    std::vector<fs::path> weights;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with(kIndexSuffix)) {
            indices.push_back(entry.path());
        } else if (name.ends_with(".safetensors")) {
            weights.push_back(entry.path());
        }
    }
    for (const auto* list : {&indices, &weights}) {
        for (const fs::path& path : *list) {
            fs::remove(path);
        }
    }
}

}  // namespace

PartialDirectory PartialDirectory::create(const TargetRequest& request) {
    PartialDirectory made;
    made.target_ = checked_target(request);
    made.made_ = make_parents(made.target_.parent_path());
    made.take_lock();
    // Another run may have finished between the check and the lock.
    checked_target({request.target, request.inputs, request.overwrite || made.is_inside_});
    made.make_partial();
    return made;
}

void PartialDirectory::choose_places(Place place) {
    const std::string name = target_.filename().string();
    is_inside_ = place == Place::inside;
    partial_ = is_inside_ ? target_ / kPartialInside : partial_beside(target_);
    lock_path_ = is_inside_ ? target_ / kLockInside
                            : target_.parent_path() / ("." + name + ".shardweld-lock");
}

void PartialDirectory::take_lock() {
    std::error_code failed;
    const bool exists = fs::exists(target_, failed);
    if (!exists || (!contains_current_directory(target_) && !is_mount_point(target_))) {
        choose_places(Place::beside);
        lock_fd_ = try_lock_file(lock_path_, target_);
    }
    if (lock_fd_ < 0 && exists) {
        choose_places(Place::inside);
        lock_fd_ = try_lock_file(lock_path_, target_);
    }
    if (lock_fd_ < 0) {
        throw Error(ErrorCode::io, "cannot create " + lock_path_.string() +
                                       ": no right to write there; choose another --target_dir");
    }
    is_held_ = true;
}

void PartialDirectory::make_partial() {
    std::error_code failed;
    if (fs::exists(fs::symlink_status(partial_, failed))) {
        fs::remove_all(partial_, failed);
        if (failed) {
            io::throw_errno(failed.value(), "remove what a dead run left:", partial_);
        }
        notes_.push_back("removed " + partial_.string() + ", left by a run that did not finish");
    }
    if (::mkdir(partial_.c_str(), 0777) != 0) {
        io::throw_errno(errno, "create directory", partial_);
    }
}

void PartialDirectory::commit(bool sync) {
    try {
        if (sync) {
            sync_tree(partial_);
        }
        if (is_inside_) {
            move_files();
        } else {
            replace_target();
        }
        if (sync) {
            if (is_inside_) {
                sync_tree(target_);
            }
            io::sync_directory(target_.parent_path());
        }
    } catch (const fs::filesystem_error& error) {
        io::throw_errno(error.code().value(), "publish", target_);
    }
    made_.clear();
    unlock_file(std::exchange(lock_fd_, -1), lock_path_);
    is_held_ = false;
}

void PartialDirectory::replace_target() {
    if (!fs::exists(target_)) {
        rename_or_throw(partial_, target_);
        return;
    }
    take_over_rights(target_, partial_);
    // An empty directory gives way to a rename; one with content is exchanged, so that the name is
    // never missing.
    if (fs::is_empty(target_)) {
        rename_or_throw(partial_, target_);
        return;
    }
    if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
        remove_old(partial_);
        return;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
        io::throw_errno(errno, "exchange " + partial_.string() + " with", target_);
    }
    fs::path aside = partial_;
    aside.replace_filename("." + target_.filename().string() + ".shardweld-old");
    fs::remove_all(aside);
    rename_or_throw(target_, aside);
    if (::rename(partial_.c_str(), target_.c_str()) != 0) {
        const int error = errno;
        rename_or_throw(aside, target_);
        io::throw_errno(error, "rename " + partial_.string() + " to", target_);
    }
    remove_old(aside);
}

/// The new target is in place: an old one that cannot be removed is worth a note only.
void PartialDirectory::remove_old(const fs::path& old) {
    std::error_code failed;
    fs::remove_all(old, failed);
    if (failed) {
        notes_.push_back("cannot remove " + old.string() +
                         ", which holds the replaced target: " + failed.message());
    }
}

void PartialDirectory::move_files() {
    remove_old_weights(target_);
    for (const fs::path& file : files_in_publishing_order(partial_)) {
        fs::create_directories((target_ / file).parent_path());
        rename_or_throw(partial_ / file, target_ / file);
    }
    fs::remove_all(partial_);
}

void PartialDirectory::discard() noexcept {
    if (is_held_) {
        std::error_code ignored;
        fs::remove_all(partial_, ignored);
        unlock_file(std::exchange(lock_fd_, -1), lock_path_);
        is_held_ = false;
    }
    for (const fs::path& path : made_) {
        // Fails, as it should, when others have put something there.
        (void)::rmdir(path.c_str());
    }
}

PartialDirectory::PartialDirectory(PartialDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      partial_(std::move(other.partial_)),
      lock_path_(std::move(other.lock_path_)),
      is_inside_(other.is_inside_),
      is_held_(std::exchange(other.is_held_, false)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      made_(std::move(other.made_)),
      notes_(std::move(other.notes_)) {}

PartialDirectory::~PartialDirectory() {
    discard();
}

}  // namespace shardweld::publish
