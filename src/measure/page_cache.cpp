#include "page_cache.hpp"

#include <algorithm>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace shardweld::measure {

namespace {

// Bounds the list of pages that mincore fills.
constexpr Bytes kWindow = Bytes{1} << 30U;

Bytes page_bytes() {
    return static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

/// Cached bytes of [begin, end), which lies in one window; its first page is mapped whole.
Bytes cached_in_window(int fd, Bytes begin, Bytes end) {
    const Bytes page = page_bytes();
    const Bytes first = begin / page * page;
    void* const mapped =
        ::mmap(nullptr, end - first, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(first));
    if (mapped == MAP_FAILED) {
        return end - begin;
    }
    std::vector<unsigned char> resident((end - first + page - 1) / page, 1);
    const bool told = ::mincore(mapped, end - first, resident.data()) == 0;
    ::munmap(mapped, end - first);
    if (!told) {
        return end - begin;
    }
    Bytes total = 0;
    for (std::size_t i = 0; i < resident.size(); ++i) {
        const Bytes at = first + i * page;
        total += (resident[i] & 1U) != 0 ? std::min(at + page, end) - std::max(at, begin) : 0;
    }
    return total;
}

}  // namespace

Bytes cached_bytes(int fd, Bytes offset, Bytes size) {
    Bytes total = 0;
    for (Bytes at = offset; at < offset + size;) {
        const Bytes end = std::min(offset + size, (at / kWindow + 1) * kWindow);
        total += cached_in_window(fd, at, end);
        at = end;
    }
    return total;
}

}  // namespace shardweld::measure
