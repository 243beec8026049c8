#include "same_content.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "core/fingerprint.hpp"
#include "io/errno.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "views.hpp"

namespace shardweld::app {

namespace {

constexpr std::size_t kMaxFiles = 64;
constexpr Bytes kBlocks = 16;
constexpr Bytes kBlockBytes = 4096;

/// Over blocks from the first to the last byte of a file; over all of a small one.
std::uint64_t sampled(const fs::path& path) {
    const io::InputFile file = io::InputFile::open(path);
    std::vector<std::byte> block(std::min(file.size(), kBlockBytes));
    Fingerprint hash;
    for (Bytes i = 0; i < kBlocks; ++i) {
        const Bytes offset = (file.size() - block.size()) / (kBlocks - 1) * i;
        file.read_at(i + 1 < kBlocks ? offset : file.size() - block.size(), block);
        hash.add(block);
    }
    return hash.value();
}

bool is_doubtful(const Looks& looks, std::size_t file) {
    std::optional<FileStatus> first;
    for (const auto& group : looks) {
        const FileStatus& look = group[file];
        if (first && look.size == first->size && look.identity != first->identity) {
            return true;
        }
        if (!first && look.size >= 0) {
            first = look;
        }
    }
    return false;
}

/// Of pairs of a rank and a hash.
void require_equal(const std::vector<std::pair<int, std::uint64_t>>& hashes,
                   const std::string& file) {
    for (const auto& [rank, hash] : hashes) {
        if (hash != hashes.front().second) {
            throw Error(ErrorCode::mismatch,
                        "file " + file + " has other contents on rank " + std::to_string(rank) +
                            " than on rank " + std::to_string(hashes.front().first) +
                            ": the nodes hold different checkpoints",
                        "remove the stale copies");
        }
    }
}

}  // namespace

FileStatus look_at(const fs::path& file) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0) {
        if (!io::means_absent(errno)) {
            io::throw_errno(errno, "examine", file);
        }
        return {};
    }
    if (!S_ISREG(status.st_mode)) {
        return {};
    }
    Fingerprint identity;
    identity.add(status.st_ino);
    identity.add(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    identity.add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
    return {static_cast<Index>(status.st_size), identity.value(),
            io::stamp_of(status, file.c_str()), ::eaccess(file.c_str(), R_OK) != 0};
}

std::vector<std::size_t> doubtful(const Looks& looks, std::size_t limit) {
    std::vector<std::size_t> all;
    for (std::size_t file = 0; !looks.empty() && file < looks.front().size(); ++file) {
        if (is_doubtful(looks, file)) {
            all.push_back(file);
        }
    }
    const std::size_t n = std::min(all.size(), limit);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < n; ++i) {
        chosen.push_back(all[i * all.size() / n]);
    }
    return chosen;
}

void check_same_content(mpi::Comm& comm, const Views& views, const Looks& looks,
                        const fs::path& directory, const std::vector<std::string>& files) {
    const std::vector<std::size_t> chosen = doubtful(looks, kMaxFiles);
    if (chosen.empty()) {
        return;
    }
    std::vector<std::uint64_t> mine;
    mpi::collectively(comm, [&] {
        const std::uint32_t group = views.group_of_rank[static_cast<std::size_t>(comm.rank())];
        for (std::size_t i = 0; views.is_leader(comm.rank()) && i < chosen.size(); ++i) {
            const bool is_seen = looks[group][chosen[i]].size >= 0;
            mine.push_back(is_seen ? sampled(directory / files[chosen[i]]) : 0);
        }
    });
    const auto all = mpi::gather(comm, std::move(mine));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        std::vector<std::pair<int, std::uint64_t>> hashes;  // of those that see the file
        for (std::size_t group = 0; group < looks.size(); ++group) {
            if (looks[group][chosen[i]].size >= 0) {
                const int leader = views.leaders[group];
                hashes.emplace_back(leader, all[static_cast<std::size_t>(leader)][i]);
            }
        }
        require_equal(hashes, files[chosen[i]]);
    }
}

}  // namespace shardweld::app
