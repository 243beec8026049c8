#include "appear.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/io/file.hpp"

#include "places.hpp"

namespace shardweld::publish {

namespace {

constexpr const char* kIndexSuffix = ".index.json";

/// The new directory gets the rights of the one it replaces, as far as this user may give them.
void take_over_rights(const fs::path& from, const fs::path& to) {
    struct stat status {};
    if (::stat(from.c_str(), &status) == 0) {
        (void)!::chown(to.c_str(), static_cast<uid_t>(-1), status.st_gid);
        (void)::chmod(to.c_str(), status.st_mode & 07777U);
    }
}

/// Files of a directory tree, relative to it: weights first, then the rest, index files last.
std::vector<fs::path> files_in_publishing_order(const fs::path& directory) {
    std::vector<std::pair<int, fs::path>> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
        const fs::path relative = entry.path().lexically_relative(directory);
        if (entry.is_regular_file() && *relative.begin() != kJournal) {
            const std::string name = entry.path().filename().string();
            const int turn = name.ends_with(kIndexSuffix)     ? 2
                             : name.ends_with(".safetensors") ? 0
                                                              : 1;
            files.emplace_back(turn, relative);
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

/// The new target is in place: an old one that cannot be removed is worth a note only.
void remove_old(const fs::path& old, std::vector<std::string>& notes) {
    std::error_code failed;
    fs::remove_all(old, failed);
    if (failed) {
        notes.push_back("cannot remove " + old.string() +
                        ", which holds the replaced target: " + failed.message());
    }
}

}  // namespace

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

void replace_directory(const fs::path& partial, const fs::path& target,
                       std::vector<std::string>& notes) {
    if (!fs::exists(target)) {
        rename_or_throw(partial, target);
        return;
    }
    take_over_rights(target, partial);
    // An empty directory gives way to a rename; one with content is exchanged, so that the name is
    // never missing.
    if (fs::is_empty(target)) {
        rename_or_throw(partial, target);
        return;
    }
    if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
        remove_old(partial, notes);
        return;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
        io::throw_errno(errno, "exchange " + partial.string() + " with", target);
    }
    fs::path aside = partial;
    aside.replace_filename("." + target.filename().string() + ".shardweld-old");
    fs::remove_all(aside);
    rename_or_throw(target, aside);
    if (::rename(partial.c_str(), target.c_str()) != 0) {
        const int error = errno;
        rename_or_throw(aside, target);
        io::throw_errno(error, "rename " + partial.string() + " to", target);
    }
    remove_old(aside, notes);
}

void move_files(const fs::path& partial, const fs::path& target) {
    remove_old_weights(target);
    for (const fs::path& file : files_in_publishing_order(partial)) {
        fs::create_directories((target / file).parent_path());
        rename_or_throw(partial / file, target / file);
    }
    fs::remove_all(partial);
}

}  // namespace shardweld::publish
