#include "file_hashes.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/text.hpp"
#include "io/digest.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

namespace {

/// Rank `home`'s files with their sizes, on every rank.
std::vector<FileEntry> shared_list(mpi::Comm& comm, const OpenFile& open, int home,
                                   const std::function<std::vector<std::string>()>& names) {
    return mpi::share(comm, home, [&] {
        std::vector<std::string> sorted = names();
        std::ranges::sort(sorted);
        std::vector<FileEntry> files;
        for (std::string& name : sorted) {
            const auto file = open(name);
            files.push_back({std::move(name), file ? file->size() : 0, {}});
        }
        return files;
    });
}

/// By file, the rank that hashes it: the largest first, each to the rank with the least to do.
std::vector<int> shares(const std::vector<FileEntry>& files, std::size_t n_ranks) {
    std::vector<std::size_t> order(files.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return files[a].bytes > files[b].bytes; });
    std::vector<Bytes> load(n_ranks, 0);
    std::vector<int> rank_of(files.size());
    for (const std::size_t file : order) {
        const auto least = std::ranges::min_element(load);
        rank_of[file] = static_cast<int>(least - load.begin());
        *least += files[file].bytes + 1;
    }
    return rank_of;
}

}  // namespace

void hash_files(const Run& run, const std::string& phase, std::vector<FileEntry>& files,
                const std::vector<int>& readers, const OpenFile& open,
                const mpi::WhyStop& why_stop) {
    mpi::Comm& comm = run.comm;
    const mpi::OnShare on_hashed = shown(*run.progress, phase);
    std::map<std::size_t, std::string> mine;
    Bytes done = 0;
    Bytes own = 0;
    Bytes total = 0;
    for (const std::size_t i : indices(files)) {
        total += files[i].bytes;
        own += readers[i] == comm.rank() ? files[i].bytes : 0;
    }
    mpi::run_freely(comm, why_stop, [&](const mpi::OnStep& step) {
        const auto before_part = [&](Bytes bytes) {
            step();
            on_hashed(static_cast<Index>(done), static_cast<Index>(own), static_cast<Index>(total));
            done += bytes;
            if (run.throttle) {
                run.throttle->wait_for(bytes);
            }
        };
        for (const std::size_t i : indices(files)) {
            if (readers[i] != comm.rank()) {
                continue;
            }
            if (const auto file = open(files[i].name)) {
                mine[i] = io::sha256_of(*file, before_part);
            }
        }
    });
    for (auto& part : mpi::gather(comm, mine)) {
        for (auto& [file, sum] : part) {
            files[file].sha256 = std::move(sum);
        }
    }
}

std::vector<FileEntry> hash_files(const Run& run, int home,
                                  const std::function<std::vector<std::string>()>& names,
                                  const OpenFile& open, const mpi::WhyStop& why_stop) {
    std::vector<FileEntry> files = shared_list(run.comm, open, home, names);
    const auto readers = shares(files, as_size(run.comm.size()));
    hash_files(run, "hashing files", files, readers, open, why_stop);
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
        auto* const at = find_value(there, expected.name);
        const std::string name = "file " + printable(expected.name);
        if (at == nullptr || (*at)->sha256.empty()) {
            lines.push_back(name + " is missing");
        } else if ((*at)->sha256 != expected.sha256) {
            lines.push_back(name + " has the sha256 " + (*at)->sha256 + ", the report says " +
                            printable(expected.sha256));
        }
    }
    return lines;
}

}  // namespace shardweld::app
