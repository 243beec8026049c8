#include "appear.hpp"

#include <algorithm>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/io/entries.hpp"
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
    for (const fs::directory_entry& entry : io::entries_below(directory)) {
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

/// Indices and weights of an older model, which would be taken for parts of the new one.
std::vector<fs::path> old_weights(const fs::path& directory) {
    std::vector<fs::path> indices;
    std::vector<fs::path> weights;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with(kIndexSuffix)) {
            indices.emplace_back(name);
        } else if (name.ends_with(".safetensors")) {
            weights.emplace_back(name);
        }
    }
    indices.insert(indices.end(), weights.begin(), weights.end());
    return indices;
}

void move_file(Renames& renames, const fs::path& from, const fs::path& to) {
    renames.make_directories(to.parent_path());
    renames.rename(from, to);
}

/// What a run that was killed in the middle has put aside goes back first.
void restore(const fs::path& aside, const fs::path& target) {
    if (!fs::exists(aside)) {
        return;
    }
    Renames for_good;
    for (const fs::path& file : files_in_publishing_order(aside)) {
        move_file(for_good, aside / file, target / file);
    }
    fs::remove_all(aside);
}

}  // namespace

void sync_tree(const fs::path& directory) {
    for (const fs::directory_entry& entry : io::entries_below(directory)) {
        if (entry.is_directory()) {
            io::sync_directory(entry.path());
        }
    }
    io::sync_directory(directory);
}

fs::path replace_directory(Renames& renames, const fs::path& partial, const fs::path& target) {
    if (!fs::exists(target)) {
        renames.rename(partial, target);
        return {};
    }
    take_over_rights(target, partial);
    // Exchanged, so that the name is never missing.
    if (renames.exchange(partial, target)) {
        return partial;
    }
    fs::path aside = partial;
    aside.replace_filename("." + target.filename().string() + ".shardweld-old");
    fs::remove_all(aside);
    renames.rename(target, aside);
    renames.rename(partial, target);
    return aside;
}

fs::path move_files(Renames& renames, const fs::path& partial, const fs::path& target) {
    const fs::path aside = target / kOldInside;
    restore(aside, target);
    const std::vector<fs::path> files = files_in_publishing_order(partial);
    for (const fs::path& file : old_weights(target)) {
        move_file(renames, target / file, aside / file);
    }
    for (const fs::path& file : files) {
        if (fs::exists(fs::symlink_status(target / file))) {
            move_file(renames, target / file, aside / file);
        }
        move_file(renames, partial / file, target / file);
    }
    return aside;
}

}  // namespace shardweld::publish
