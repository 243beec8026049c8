// Runs a fuzz target over files, without a fuzzer: what was found once stays fixed.
// Knows nothing of the target but its entry point.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::uint8_t>;

Bytes read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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

}  // namespace

// Arguments: directory [mutations per file]. Each file and its mutations go through the target.
int main(int argc, char** argv) {
    if (argc < 2) {
        std::fputs("usage: replay DIRECTORY [MUTATIONS]\n", stderr);
        return 2;
    }
    const int n_mutations = argc > 2 ? std::stoi(argv[2]) : 0;
    std::mt19937 random(12345);
    int n_files = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argv[1])) {
        if (!entry.is_regular_file()) {
            continue;
        }
        const Bytes bytes = read_file(entry.path());
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        for (int i = 0; i < n_mutations; ++i) {
            const Bytes changed = mutated(bytes, random);
            LLVMFuzzerTestOneInput(changed.data(), changed.size());
        }
        ++n_files;
    }
    std::printf("%d files, %d mutations of each\n", n_files, n_mutations);
    return n_files > 0 ? 0 : 1;
}
