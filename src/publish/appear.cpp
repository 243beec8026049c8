#include "appear.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/io/entries.hpp"
#include "shardweld/io/file.hpp"

#include "inside.hpp"
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

/// What a file is to who looks for a model: a part of it, its tensors, or the list of their files.
enum class Role { part, weights, index };

Role role_of(const fs::path& file) {
    const std::string name = file.filename().string();
    return name.ends_with(kIndexSuffix)                              ? Role::index
           : name.ends_with(".safetensors") || name.ends_with(".h5") ? Role::weights
                                                                     : Role::part;
}

/// Files of a directory tree, relative to it. Those without which no reader takes it for a model
/// come last: of several the index, else the tensors; an adapter's before the model's.
std::vector<fs::path> files_in_publishing_order(const fs::path& directory) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : io::entries_below(directory)) {
        fs::path relative = entry.path().lexically_relative(directory);
        if (entry.is_regular_file() && *relative.begin() != kJournal) {
            files.push_back(std::move(relative));
        }
    }
    const auto turn = [](const fs::path& file) {
        return std::tuple(role_of(file), !file.has_parent_path(), file);
    };
    std::sort(files.begin(), files.end(),
              [&](const fs::path& a, const fs::path& b) { return turn(a) < turn(b); });
    return files;
}

/// What gives way to new files: the older model's indices and weights, which would be taken for
/// parts of the new one, and what has the name of a new file; in the order in which it goes, so
/// that no file of the older model is seen together with one of the new.
std::vector<fs::path> in_the_way(const fs::path& target, const std::vector<fs::path>& files) {
    std::vector<fs::path> old;
    for (const fs::directory_entry& entry : io::entries_of(target)) {
        const fs::path name = entry.path().filename();
        const bool is_own_name =
            name.extension() != ".h5" || name.string().starts_with("model");  // others have h5 too
        if (role_of(name) != Role::part && is_own_name) {
            old.push_back(name);
        }
    }
    for (const fs::path& file : files) {
        if (fs::exists(fs::symlink_status(target / file))) {
            old.push_back(file);
        }
    }
    const auto turn = [](const fs::path& file) { return std::tuple(role_of(file), file); };
    std::sort(old.begin(), old.end(),
              [&](const fs::path& a, const fs::path& b) { return turn(b) < turn(a); });
    old.erase(std::unique(old.begin(), old.end()), old.end());
    return old;
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
    const fs::path aside = old_beside(target);
    fs::remove_all(aside);
    renames.rename(target, aside);
    renames.rename(partial, target);
    return aside;
}

fs::path move_files(Renames& renames, const fs::path& partial, const fs::path& target, bool sync) {
    const fs::path aside = target / kOldInside;
    restore(aside, target);
    const std::vector<fs::path> files = files_in_publishing_order(partial);
    note_moves(partial, files, sync);
    for (const fs::path& file : in_the_way(target, files)) {
        move_file(renames, target / file, aside / file);
    }
    for (const fs::path& file : files) {
        move_file(renames, partial / file, target / file);
    }
    return aside;
}

}  // namespace shardweld::publish
