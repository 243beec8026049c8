// Runs a fuzz target over files and changed copies of them, without a fuzzer: what was found once
// stays fixed.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "replay.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

using Bytes = std::vector<std::uint8_t>;

Bytes read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// All files below, sorted: the same mutations everywhere.
std::vector<Bytes> files_below(const fs::path& directory) {
    std::vector<fs::path> paths;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
        if (entry.is_regular_file()) {
            paths.push_back(entry.path());
        }
    }
    std::sort(paths.begin(), paths.end());
    std::vector<Bytes> files;
    std::transform(paths.begin(), paths.end(), std::back_inserter(files), read_file);
    return files;
}

// A few bytes changed, cut out or repeated.
Bytes mutated(Bytes bytes, std::mt19937& random) {
    const int n_changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < n_changes && !bytes.empty(); ++i) {
        const std::size_t at = random() % bytes.size();
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        const std::size_t count = std::min<std::size_t>(random() % 16, bytes.size() - at);
        const auto end = begin + static_cast<std::ptrdiff_t>(count);
        switch (random() % 6) {
            case 0:
                bytes.resize(at);
                break;
            case 1:
                bytes.erase(begin, end);
                break;
            case 2: {
                const Bytes copy(begin, end);
                bytes.insert(begin, copy.begin(), copy.end());
                break;
            }
            case 3:
                *begin = static_cast<std::uint8_t>(random() % 2 == 0 ? 0xFF : 0);
                break;
            default:
                *begin = static_cast<std::uint8_t>(random());
        }
    }
    return bytes;
}

/// "200": so many mutations of each file; "5s": mutations for so long.
struct Amount {
    explicit Amount(const std::string& text)
        : number(std::stoul(text)), is_time(text.back() == 's') {}
    std::size_t number;
    bool is_time;
};

}  // namespace

int main(int argc, char** argv) {
    const auto& targets = shardweld::fuzz::replay_targets();
    const auto target = targets.find(argc > 1 ? argv[1] : "");
    if (argc < 3 || target == targets.end()) {
        std::fputs("usage: replay TARGET DIRECTORY [MUTATIONS_OF_EACH | SECONDSs]\n", stderr);
        return 2;
    }
    const auto run = [&](const Bytes& bytes) { target->second(bytes.data(), bytes.size()); };
    const Amount amount(argc > 3 ? argv[3] : "0");
    const std::vector<Bytes> files = files_below(argv[2]);
    std::for_each(files.begin(), files.end(), run);
    const auto end = Clock::now() + std::chrono::seconds(amount.number);
    std::mt19937 random(12345);
    std::size_t n_rounds = 0;
    while (!files.empty() && (amount.is_time ? Clock::now() < end : n_rounds < amount.number)) {
        for (const Bytes& bytes : files) {
            run(mutated(bytes, random));
        }
        ++n_rounds;
    }
    std::printf("%zu files, %zu mutations of each\n", files.size(), n_rounds);
    return files.empty() ? 1 : 0;
}
