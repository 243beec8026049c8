// io_roof SOURCE TARGET --ranks N [--fsync]: copies all files below SOURCE into the new directory
// TARGET by plain reads and writes of N threads: the speed no merge of the same bytes can exceed
// by much. Prints wall seconds, CPU seconds and bytes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <cxxopts.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"

#include "jobs.hpp"

namespace {

namespace fs = std::filesystem;
namespace bench = shardweld::bench;
namespace io = shardweld::io;
using shardweld::Bytes;

struct Pair {
    io::InputFile source;
    io::OutputFile target;
    Bytes begin = 0;  ///< in the concatenation of all files
};

std::vector<Pair> open_all(const fs::path& source, const fs::path& target) {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::recursive_directory_iterator(source)) {
        if (entry.is_regular_file()) {
            paths.push_back(entry.path());
        }
    }
    std::sort(paths.begin(), paths.end());
    fs::create_directory(target);
    std::vector<Pair> pairs;
    Bytes begin = 0;
    for (const fs::path& path : paths) {
        Pair pair{io::InputFile::open(path),
                  io::OutputFile::create(target / std::to_string(pairs.size())), begin};
        begin += pair.source.size();
        pair.target.resize(pair.source.size());
        pairs.push_back(std::move(pair));
    }
    return pairs;
}

struct Manner {
    Bytes extent = 0;  ///< of one read and one write
    bool sync = false;
};

// Copies bytes [begin, end) of the concatenation.
void copy_range(const std::vector<Pair>& pairs, Bytes begin, Bytes end, const Manner& manner) {
    std::vector<std::byte> buffer(manner.extent);
    for (const Pair& pair : pairs) {
        const Bytes lo = std::max(begin, pair.begin);
        const Bytes hi = std::min(end, pair.begin + pair.source.size());
        for (Bytes at = lo; at < hi; at += manner.extent) {
            const auto part = std::span(buffer).first(std::min(manner.extent, hi - at));
            pair.source.read_at(at - pair.begin, part);
            pair.target.write_at(at - pair.begin, part);
        }
        if (manner.sync && lo < hi) {
            pair.target.sync();
        }
    }
}

double cpu_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int run(int argc, char** argv) {
    cxxopts::Options options("io_roof", "Copies files by plain parallel reads and writes.");
    auto add = options.add_options();
    add("source", "directory to read", cxxopts::value<std::string>());
    add("target", "directory to make", cxxopts::value<std::string>());
    add("ranks", "threads", cxxopts::value<unsigned>()->default_value("1"));
    add("extent", "KiB read and written at a time", cxxopts::value<Bytes>()->default_value("8192"));
    add("fsync", "sync each file");
    options.parse_positional({"source", "target"});
    const auto given = options.parse(argc, argv);
    const auto n = std::max(given["ranks"].as<unsigned>(), 1U);
    const Manner manner{std::max<Bytes>(given["extent"].as<Bytes>(), 4) << 10U,
                        given.count("fsync") != 0};
    const auto begin = std::chrono::steady_clock::now();
    auto pairs = open_all(given["source"].as<std::string>(), given["target"].as<std::string>());
    const Bytes total = pairs.empty() ? 0 : pairs.back().begin + pairs.back().source.size();
    bench::run_jobs(n, n, [&](std::size_t i) {
        copy_range(pairs, total * i / n, total * (i + 1) / n, manner);
    });
    for (Pair& pair : pairs) {
        pair.target.close();
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    std::printf("%.3f %.3f %llu\n", taken.count(), cpu_seconds(),
                static_cast<unsigned long long>(total));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "io_roof: %s\n", error.what());
        return 1;
    }
}
