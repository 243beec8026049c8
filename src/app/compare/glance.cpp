#include "glance.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kLook = Bytes{1} << 16U;
constexpr Bytes kLooks = 256;

/// Where a tensor's bytes are.
struct Found {
    io::InputFile file;
    formats::StoredTensor tensor;
};

std::optional<Found> found_in(const fs::path& directory, const std::vector<std::string>& files,
                              const std::string& name) {
    for (const std::string& path : files) {
        if (path.ends_with(".safetensors")) {
            auto file = io::InputFile::open(directory / path);
            auto tensors = formats::read_safetensors(file, 0, formats::Twice::last_counts).tensors;
            if (const auto at = tensors.find(name); at != tensors.end()) {
                return Found{std::move(file), std::move(at->second)};
            }
        }
    }
    return std::nullopt;
}

std::vector<std::byte> bytes_of(const Found& found, Bytes begin) {
    std::vector<std::byte> bytes(
        to_size(std::min(kLook, found.tensor.storage_bytes - begin), "a look"));
    found.file.read_at(found.tensor.storage_offset + begin, bytes);
    return bytes;
}

}  // namespace

std::optional<bool> equal_at_a_glance(const fs::path& directory,
                                      const std::vector<std::string>& files, const std::string& one,
                                      const std::string& other) {
    const auto a = found_in(directory, files, one);
    const auto b = found_in(directory, files, other);
    if (!a || !b || a->tensor.dtype != b->tensor.dtype || a->tensor.shape != b->tensor.shape) {
        return std::nullopt;
    }
    const Bytes step = std::max(kLook, a->tensor.storage_bytes / kLooks);
    for (Bytes begin = 0; begin < a->tensor.storage_bytes; begin += step) {
        if (bytes_of(*a, begin) != bytes_of(*b, begin)) {
            return false;
        }
    }
    return true;
}

}  // namespace shardweld::app
