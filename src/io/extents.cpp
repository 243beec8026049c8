#include "extents.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

namespace shardweld::io {

namespace {

constexpr std::size_t kExtents = 128;  // of one call

/// One call's answer. The kernel's struct ends in an array without a length.
struct Answer {
    alignas(
        fiemap) std::array<std::byte, sizeof(fiemap) + kExtents * sizeof(fiemap_extent)> bytes{};

    [[nodiscard]] fiemap head() const {
        fiemap head;
        std::memcpy(&head, bytes.data(), sizeof(head));
        return head;
    }
    void ask(Bytes begin, Bytes end) {
        fiemap head;
        std::memset(&head, 0, sizeof(head));
        head.fm_start = begin;
        head.fm_length = end - begin;
        head.fm_extent_count = kExtents;
        std::memcpy(bytes.data(), &head, sizeof(head));
    }
    [[nodiscard]] fiemap_extent extent(std::size_t at) const {
        fiemap_extent extent{};
        std::memcpy(&extent, bytes.data() + sizeof(fiemap) + at * sizeof(extent), sizeof(extent));
        return extent;
    }
};

}  // namespace

std::vector<std::pair<Bytes, Bytes>> ranges_without_blocks(int fd, Bytes size) {
    std::vector<std::pair<Bytes, Bytes>> missing;
    Bytes at = 0;
    while (at < size) {
        Answer answer;
        answer.ask(at, size);
        if (::ioctl(fd, FS_IOC_FIEMAP, answer.bytes.data()) != 0) {
            return {{0, size}};
        }
        const std::size_t n = answer.head().fm_mapped_extents;
        if (n == 0) {
            break;
        }
        for (std::size_t i = 0; i < n && i < kExtents; ++i) {
            const fiemap_extent extent = answer.extent(i);
            if (extent.fe_logical > at) {
                missing.emplace_back(at, std::min<Bytes>(extent.fe_logical, size));
            }
            at = std::max<Bytes>(at, extent.fe_logical + extent.fe_length);
        }
    }
    if (at < size) {
        missing.emplace_back(at, size);
    }
    return missing;
}

}  // namespace shardweld::io
