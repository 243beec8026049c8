#include "check.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "jobs.hpp"

namespace shardweld::bench {

namespace {

namespace fs = std::filesystem;

constexpr Bytes kBlockBytes = Bytes{1} << 20U;
constexpr Bytes kSampledBlocks = 5;
constexpr Bytes kLargestHeader = Bytes{100} << 20U;
constexpr std::size_t kMostDifferences = 20;

struct Found {
    std::size_t file = 0;
    std::string dtype;
    std::vector<Index> shape;
    Bytes begin = 0;  ///< in the file
    Bytes size = 0;
};

// All tensors of a directory.
struct Merged {
    std::vector<io::InputFile> files;
    std::map<std::string, Found> tensors;
    std::vector<std::string> repeated;
};

nlohmann::json read_header(const io::InputFile& file, Bytes& data_begin) {
    std::array<std::byte, 8> prefix{};
    file.read_at(0, prefix);
    Bytes size = 0;
    for (std::size_t i = 8; i-- > 0;) {
        size = size << 8U | std::to_integer<Bytes>(prefix[i]);
    }
    if (size > kLargestHeader || size > file.size() - prefix.size()) {
        throw Error(ErrorCode::corrupt, file.path().string() + ": the header is too large");
    }
    std::vector<char> text(size);
    file.read_at(prefix.size(), std::as_writable_bytes(std::span(text)));
    data_begin = prefix.size() + size;
    return nlohmann::json::parse(text);
}

void add_file(const fs::path& path, Merged& out) {
    out.files.push_back(io::InputFile::open(path));
    Bytes data_begin = 0;
    const auto header = read_header(out.files.back(), data_begin);
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") {
            continue;
        }
        const auto offsets = entry.at("data_offsets").get<std::vector<Bytes>>();
        const Found found{out.files.size() - 1, entry.at("dtype"), entry.at("shape"),
                          data_begin + offsets.at(0), offsets.at(1) - offsets.at(0)};
        if (!out.tensors.emplace(name, found).second) {
            out.repeated.push_back(name);
        }
    }
}

Merged read_headers(const fs::path& directory) {
    Merged out;
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(directory)) {
        if (entry.path().extension() == ".safetensors") {
            paths.push_back(entry.path());
        }
    }
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
        add_file(path, out);
    }
    return out;
}

// The blocks of a tensor to compare, by number.
std::vector<Bytes> blocks_of(Bytes size, bool is_sample) {
    const Bytes n = (size + kBlockBytes - 1) / kBlockBytes;
    std::vector<Bytes> blocks;
    const Bytes steps = is_sample ? std::min(n, kSampledBlocks) : n;
    for (Bytes i = 0; i < steps; ++i) {
        blocks.push_back(steps == n ? i : i * (n - 1) / (steps - 1));
    }
    return blocks;
}

std::string first_difference(std::span<const std::byte> found, std::span<const std::byte> expected,
                             Bytes width, Bytes first) {
    const auto at = std::mismatch(found.begin(), found.end(), expected.begin()).first;
    const auto element = static_cast<std::size_t>(at - found.begin()) / width;
    const auto bits = [&](std::span<const std::byte> bytes) {
        std::uint32_t value = 0;
        std::memcpy(&value, bytes.data() + element * width, width);
        return std::to_string(value);
    };
    return "element " + std::to_string(first + element) + " has bits " + bits(found) +
           ", expected " + bits(expected);
}

class Checker {
  public:
    Checker(const Merged& merged, const Values& values, DType dtype, bool is_sample)
        : merged_(merged), values_(values), dtype_(dtype), is_sample_(is_sample) {}

    void check(const HubTensor& expected) {
        Bytes compared = 0;
        const auto difference = compare(expected, compared);
        const std::lock_guard lock(guard_);
        result_.compared_bytes += compared;
        ++result_.n_tensors;
        if (difference) {
            note("tensor " + expected.name + ": " + *difference);
        }
    }

    void note(std::string difference) {
        if (result_.differences.size() < kMostDifferences) {
            result_.differences.push_back(std::move(difference));
        }
    }

    [[nodiscard]] CheckResult take() { return std::move(result_); }

  private:
    [[nodiscard]] DType dtype_of(const HubTensor& tensor) const {
        return tensor.is_f32 ? DType::f32 : dtype_;
    }

    void fill_as(const HubTensor& tensor, Bytes first, std::span<std::byte> out) const {
        const std::string& name = tensor.name;
        if (tensor.is_f32 || dtype_ == values_.dtype) {
            fill({dtype_of(tensor), values_.seed, values_.is_sparse}, name, first, out);
            return;
        }
        std::vector<std::uint32_t> wide(out.size() / 2);
        fill(values_, name, first, std::as_writable_bytes(std::span(wide)));
        for (std::size_t i = 0; i < wide.size(); ++i) {
            const auto narrow =
                static_cast<std::uint16_t>((wide[i] + 0x7FFFU + ((wide[i] >> 16U) & 1U)) >> 16U);
            std::memcpy(out.data() + 2 * i, &narrow, 2);
        }
    }

    [[nodiscard]] std::optional<std::string> compare(const HubTensor& expected,
                                                     Bytes& compared) const {
        const auto at = merged_.tensors.find(expected.name);
        if (at == merged_.tensors.end()) {
            return "is missing";
        }
        const Found& found = at->second;
        const DType dtype = dtype_of(expected);
        if (found.dtype != safetensors_name(dtype) || found.shape != expected.shape) {
            return "is " + found.dtype + " " + shape_text(found.shape) + ", expected " +
                   std::string(safetensors_name(dtype)) + " " + shape_text(expected.shape);
        }
        const Bytes width = size_of(dtype);
        const auto n_elements = static_cast<Bytes>(volume_of(expected.shape, "a shape"));
        if (found.size != n_elements * width) {
            return "has " + std::to_string(found.size) + " bytes";
        }
        std::vector<std::byte> read(kBlockBytes);
        std::vector<std::byte> wanted(kBlockBytes);
        for (const Bytes block : blocks_of(found.size, is_sample_)) {
            const Bytes begin = block * kBlockBytes;
            const Bytes size = std::min(kBlockBytes, found.size - begin);
            const auto have = std::span(read).first(size);
            const auto want = std::span(wanted).first(size);
            merged_.files[found.file].read_at(found.begin + begin, have);
            fill_as(expected, begin / width, want);
            compared += size;
            if (std::memcmp(have.data(), want.data(), size) != 0) {
                return first_difference(have, want, width, begin / width);
            }
        }
        return std::nullopt;
    }

    const Merged& merged_;
    Values values_;
    DType dtype_;
    bool is_sample_;
    std::mutex guard_;
    CheckResult result_;
};

}  // namespace

CheckResult check_merge(const fs::path& directory, const Checkpoint& checkpoint, DType dtype,
                        bool is_sample, unsigned n_threads) {
    const Merged merged = read_headers(directory);
    const auto expected = hub_tensors(checkpoint.model);
    Checker checker(merged, checkpoint.values, dtype, is_sample);
    for (const std::string& name : merged.repeated) {
        checker.note("tensor " + name + ": is in two files");
    }
    std::map<std::string, bool> is_expected;
    for (const HubTensor& tensor : expected) {
        is_expected[tensor.name] = true;
    }
    for (const auto& [name, found] : merged.tensors) {
        if (!is_expected.contains(name)) {
            checker.note("tensor " + name + ": is not expected");
        }
    }
    run_jobs(expected.size(), n_threads, [&](std::size_t i) { checker.check(expected[i]); });
    return checker.take();
}

}  // namespace shardweld::bench
