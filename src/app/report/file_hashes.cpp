#include "file_hashes.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "shardweld/core/codec.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/sha256.hpp"

namespace shardweld::app {

namespace {

/// Rank `home`'s files with their sizes, on every rank.
std::vector<FileEntry> shared_list(mpi::Comm& comm, const OpenFile& open, int home,
                                   const std::function<std::vector<std::string>()>& names) {
    ByteWriter out;
    mpi::collectively(comm, [&] {
        if (comm.rank() != home) {
            return;
        }
        std::vector<std::string> sorted = names();
        std::sort(sorted.begin(), sorted.end());
        for (const std::string& name : sorted) {
            const auto file = open(name);
            out.put_text(name);
            out.put<Bytes>(file ? file->size() : 0);
        }
    });
    const auto bytes = comm.broadcast(out.take(), home);
    ByteReader in(bytes);
    std::vector<FileEntry> files;
    while (!in.at_end()) {
        std::string name = in.get_text();
        files.push_back({std::move(name), in.get<Bytes>(), {}});
    }
    return files;
}

/// By file, the rank that hashes it: the largest first, each to the rank with the least to do.
std::vector<std::size_t> shares(const std::vector<FileEntry>& files, std::size_t n_ranks) {
    std::vector<std::size_t> order(files.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return files[a].bytes > files[b].bytes; });
    std::vector<Bytes> load(n_ranks, 0);
    std::vector<std::size_t> rank_of(files.size());
    for (const std::size_t file : order) {
        const auto least = std::min_element(load.begin(), load.end());
        rank_of[file] = static_cast<std::size_t>(least - load.begin());
        *least += files[file].bytes + 1;
    }
    return rank_of;
}

}  // namespace

std::vector<FileEntry> hash_files(mpi::Comm& comm, const OpenFile& open, int home,
                                  const std::function<std::vector<std::string>()>& names,
                                  io::Throttle* throttle, const mpi::WhyStop& why_stop) {
    std::vector<FileEntry> files = shared_list(comm, open, home, names);
    const auto rank_of = shares(files, static_cast<std::size_t>(comm.size()));
    ByteWriter mine;
    mpi::run_freely(comm, why_stop, [&](const mpi::Step& step) {
        const auto before_part = [&](Bytes bytes) {
            step();
            if (throttle != nullptr) {
                throttle->take(bytes);
            }
        };
        for (std::size_t i = 0; i < files.size(); ++i) {
            if (rank_of[i] != static_cast<std::size_t>(comm.rank())) {
                continue;
            }
            if (const auto file = open(files[i].name)) {
                mine.put<std::uint64_t>(i);
                mine.put_text(io::sha256_of(*file, before_part));
            }
        }
    });
    for (const auto& bytes : comm.all_gather(mine.take())) {
        ByteReader in(bytes);
        while (!in.at_end()) {
            FileEntry& file = files[in.get<std::uint64_t>()];
            file.sha256 = in.get_text();
        }
    }
    return files;
}

std::vector<std::string> file_differences(const std::vector<FileEntry>& reported,
                                          const std::vector<FileEntry>& found) {
    std::map<std::string, const FileEntry*> there;
    for (const FileEntry& file : found) {
        there[file.name] = &file;
    }
    std::vector<std::string> lines;
    for (const FileEntry& expected : reported) {
        const auto at = there.find(expected.name);
        const std::string name = "file " + printable(expected.name);
        if (at == there.end() || at->second->sha256.empty()) {
            lines.push_back(name + " is missing");
        } else if (at->second->sha256 != expected.sha256) {
            lines.push_back(name + " has the sha256 " + at->second->sha256 + ", the report says " +
                            printable(expected.sha256));
        }
    }
    return lines;
}

}  // namespace shardweld::app
