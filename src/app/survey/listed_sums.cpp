#include "listed_sums.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/text.hpp"
#include "formats/listed_sums.hpp"
#include "io/sha256.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using formats::Location;
using Sums = std::map<std::string, std::string>;

constexpr const char* kSource = "the SHA-256 that the save lists";

bool reads_weights(const Session& session) {
    return session.options.command == Command::merge || session.options.command == Command::test;
}

bool is_shard(const Location& location, const std::string& name) {
    return std::ranges::find(location.shard_files, name) != location.shard_files.end();
}

/// The names of the list, shards at the end.
std::vector<std::string> listed_names(const Sums& sums, const Location& location) {
    std::vector<std::string> names;
    for (const auto& [name, sum] : sums) {
        names.push_back(name);
    }
    std::ranges::stable_partition(
        names, [&](const std::string& name) { return !is_shard(location, name); });
    return names;
}

/// Hashes this rank's files: entries of `mine` tell which.
void hash(Session& session, const fs::path& directory, std::vector<FileEntry>& mine) {
    Bytes own = 0;
    for (const FileEntry& file : mine) {
        own += file.bytes;
    }
    const Bytes total = static_cast<Bytes>(session.comm.all_sum(static_cast<Index>(own)));
    const auto tell = shown(session.progress, "checking SHA-256");
    Bytes done = 0;
    mpi::run_freely(session.comm, {}, [&](const mpi::OnStep& step) {
        for (FileEntry& file : mine) {
            file.sha256 = io::sha256_of(directory / file.name, [&](Bytes bytes) {
                step();
                tell(static_cast<Index>(done), static_cast<Index>(own), static_cast<Index>(total));
                done += bytes;
                if (session.throttle != nullptr) {
                    session.throttle->take(bytes);
                }
            });
        }
    });
    session.progress.end();
}

std::vector<FileEntry> hashed_together(Session& session, FoundCheckpoint& found,
                                       const std::vector<std::string>& names,
                                       const SizesByGroup& sizes) {
    const std::vector<int> readers = ranks_for_all(sizes, found.sights.views());
    std::vector<FileEntry> mine;
    for (std::size_t file = 0; file < names.size(); ++file) {
        if (readers[file] == session.comm.rank()) {
            const auto group =
                found.sights.views().group_of_rank[static_cast<std::size_t>(session.comm.rank())];
            mine.push_back({names[file], static_cast<Bytes>(sizes[group][file]), {}});
        }
    }
    hash(session, found.location.directory, mine);
    std::vector<FileEntry> all = mpi::gather_all(session.comm, std::move(mine));
    std::ranges::sort(all, {}, &FileEntry::name);
    return all;
}

void require_sums(const std::vector<FileEntry>& files, const Sums& sums,
                  const fs::path& directory) {
    std::vector<std::string> wrong;
    for (const FileEntry& file : files) {
        if (sums.at(file.name) != file.sha256) {
            wrong.push_back(file.name);
        }
    }
    if (!wrong.empty()) {
        throw Error(
            ErrorCode::corrupt,
            directory.string() + ": " + std::to_string(wrong.size()) + " of " +
                std::to_string(files.size()) +
                " files have not the SHA-256 that the save lists for them: " + listed(wrong),
            "copy them again from where they were saved");
    }
}

std::string note_on(const std::vector<FileEntry>& files, std::size_t n_listed) {
    Bytes bytes = 0;
    for (const FileEntry& file : files) {
        bytes += file.bytes;
    }
    const std::size_t n_left = n_listed - files.size();
    return "the SHA-256 of " + counted(files.size(), "file") + " (" + human_bytes(bytes) +
           ") is the one that the save lists" +
           (n_left > 0 ? "; those of " + counted(n_left, "other") + " are not checked here" : "");
}

void state(const std::vector<FileEntry>& files, std::size_t n_listed, Location& location) {
    for (const FileEntry& file : files) {
        location.statements.push_back({file.name,
                                       kSource,
                                       {{"name", file.name}},
                                       {{"list", std::to_string(n_listed) + " files"}},
                                       true});
    }
}

}  // namespace

std::vector<FileEntry> check_listed_sums(Session& session, FoundCheckpoint& found) {
    Location& location = found.location;
    const Sums sums = mpi::share(session.comm, found.home,
                                 [&] { return formats::listed_sums(location.directory); });
    if (sums.empty()) {
        return {};
    }
    std::vector<std::string> names = listed_names(sums, location);
    check_seen(found.sights.sizes_of(names), names, location.directory);
    if (session.options.check_crc == CheckCrc::off) {
        location.notes.push_back("the SHA-256 that the save lists of " +
                                 counted(names.size(), "file") +
                                 " is not checked (--check_crc off)");
        return {};
    }
    if (!reads_weights(session)) {
        std::erase_if(names, [&](const std::string& name) { return is_shard(location, name); });
    }
    const auto files = hashed_together(session, found, names, found.sights.sizes_of(names));
    mpi::collectively(session.comm, [&] { require_sums(files, sums, location.directory); });
    location.notes.push_back(note_on(files, sums.size()));
    state(files, sums.size(), location);
    return files;
}

}  // namespace shardweld::app
