#include "appear.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.hpp"
#include "io/written.hpp"
#include "shardweld/error.hpp"

#include "report_file.hpp"
#include "traces.hpp"

namespace shardweld::publish {

namespace {

constexpr const char* kIndexSuffix = ".index.json";

/// The new directory gets the rights of the one it replaces, as far as this user may give them.
void take_over_rights(const NameInDirectory& from, const io::Directory& to) {
    struct stat status {};
    if (::fstatat(from.directory.fd(), from.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)!::fchownat(to.fd(), ".", static_cast<uid_t>(-1), status.st_gid, 0);
        (void)::fchmodat(to.fd(), ".", status.st_mode & 07777U, 0);
    }
}

/// What a file is to who looks for a model: a part of it, its tensors, or the list of their files.
enum class FileRole { part, weights, index };

FileRole role_of(const fs::path& file) {
    const std::string name = file.filename().string();
    return name.ends_with(kIndexSuffix)                              ? FileRole::index
           : name.ends_with(".safetensors") || name.ends_with(".h5") ? FileRole::weights
                                                                     : FileRole::part;
}

/// Files without which no reader takes a directory for a model come last: of several the index,
/// else the tensors; an adapter's before the model's.
std::vector<fs::path> in_publishing_order(std::vector<fs::path> files) {
    const auto turn = [](const fs::path& file) {
        return std::tuple(role_of(file), !file.has_parent_path(), file);
    };
    std::ranges::sort(files,
                      [&](const fs::path& a, const fs::path& b) { return turn(a) < turn(b); });
    return files;
}

std::vector<fs::path> files_below(const io::Directory& directory) {
    std::vector<fs::path> files;
    for (io::Below& entry : io::listed_below(directory)) {
        if (!entry.is_directory) {
            files.push_back(std::move(entry.name));
        }
    }
    return files;
}

/// What gives way to new files: the older model's indices, weights and report, which would be taken
/// for the new one's, and what has the name of a new file; in the order in which it goes, so
/// that no file of the older model is seen together with one of the new.
std::vector<fs::path> files_in_the_way(const io::Directory& target,
                                       const std::vector<fs::path>& files) {
    std::vector<fs::path> old;
    for (const io::Below& entry : io::listed(target)) {
        const fs::path& name = entry.name;
        const bool is_own_name =
            name.extension() != ".h5" || name.string().starts_with("model");  // others have h5 too
        if ((role_of(name) != FileRole::part && is_own_name) || name == kKeptReport) {
            old.push_back(name);
        }
    }
    for (const fs::path& file : files) {
        if (io::identity_at(target, file)) {
            old.push_back(file);
        }
    }
    const auto turn = [](const fs::path& file) { return std::tuple(role_of(file), file); };
    std::ranges::sort(old, [&](const fs::path& a, const fs::path& b) { return turn(b) < turn(a); });
    old.erase(std::unique(old.begin(), old.end()), old.end());
    return old;
}

void move_file(Renames& renames, const NameInDirectory& from, const NameInDirectory& to) {
    renames.make_directories({to.directory, to.name.parent_path()});
    renames.rename(from, to);
}

/// Puts back what a run that was killed in the middle has put aside.
void restore(const NameInDirectory& aside, const io::Directory& target) {
    if (!io::identity_at(aside.directory, aside.name)) {
        return;
    }
    const io::Directory old(aside.directory, aside.name);
    Renames for_good;
    for (const fs::path& file : in_publishing_order(files_below(old))) {
        move_file(for_good, {old, file}, {target, file});
    }
    io::remove_below(aside.directory, aside.name);
}

}  // namespace

void sync_tree(const io::Directory& directory) {
    for (const io::Below& entry : io::listed_below(directory)) {
        if (entry.is_directory) {
            io::sync(io::Directory(directory, entry.name));
        }
    }
    io::sync(directory);
}

void require_files(const io::Directory& directory, const io::Identities& files) {
    for (const auto& [name, identity] : files) {
        io::require_same_file(directory, name, identity);
    }
}

void require_no_others(const io::Directory& partial, const io::Identities& files) {
    for (const fs::path& file : files_below(partial)) {
        // NFS keeps removed files that are open under such names.
        const bool is_kept_by_nfs = file.filename().string().starts_with(".nfs");
        if (*file.begin() != kJournal && !is_kept_by_nfs && !files.contains(file)) {
            throw Error(ErrorCode::target,
                        printable((partial.path() / file).string(), 1000) +
                            " is none of the files that this run wrote: another program has put it "
                            "there",
                        "move it away, and keep others out of this directory");
        }
    }
}

std::optional<NameInDirectory> replace_directory(Renames& renames, const NameInDirectory& partial,
                                                 const NameInDirectory& target) {
    if (!io::identity_at(target.directory, target.name)) {
        renames.rename(partial, target);
        return std::nullopt;
    }
    take_over_rights(target, io::Directory(partial.directory, partial.name));
    // Exchanged, so that the name is never missing.
    if (renames.exchange(partial, target)) {
        return partial;
    }
    NameInDirectory aside{target.directory, beside(target.name, kOldTrace)};
    io::remove_below(aside.directory, aside.name);
    renames.rename(target, aside);
    renames.rename(partial, target);
    return aside;
}

NameInDirectory move_files(Renames& renames, const io::Directory& partial,
                           const io::Directory& target, const io::Identities& files, bool sync) {
    NameInDirectory aside{target, kOldTrace};
    restore(aside, target);
    std::vector<fs::path> names = collect_list(files, [](const auto& one) { return one.first; });
    names = in_publishing_order(std::move(names));
    note_moves(partial.path(), names, sync);
    for (const fs::path& file : files_in_the_way(target, names)) {
        renames.make_directories(aside);
        move_file(renames, {target, file}, {target, aside.name / file});
    }
    for (const fs::path& file : names) {
        move_file(renames, {partial, file}, {target, file});
    }
    return aside;
}

}  // namespace shardweld::publish
