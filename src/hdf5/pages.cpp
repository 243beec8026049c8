#include "pages.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace shardweld::hdf5 {

namespace {

/// Calls take(page, offset in the page, offset in the range, size) for each page that a range
/// touches.
template <typename Take>
void each_page(std::uint64_t offset, std::size_t size, Take take) {
    for (std::size_t done = 0; done < size;) {
        const std::uint64_t within = (offset + done) % Pages::kPageBytes;
        const std::size_t part = std::min<std::size_t>(Pages::kPageBytes - within, size - done);
        take((offset + done) / Pages::kPageBytes, within, done, part);
        done += part;
    }
}

}  // namespace

void Pages::write(std::uint64_t offset, const void* bytes, std::size_t size) noexcept {
    try {
        each_page(offset, size, [&](auto at, auto within, auto done, auto part) {
            auto& page = all_[at];
            if (page == nullptr) {
                page = std::make_unique<Page>();
            }
            std::memcpy(page->data() + within, static_cast<const std::byte*>(bytes) + done, part);
        });
    } catch (const std::bad_alloc&) {
        is_whole_ = false;
    }
}

void Pages::read(std::uint64_t offset, void* bytes, std::size_t size) const noexcept {
    each_page(offset, size, [&](auto at, auto within, auto done, auto part) {
        std::byte* const out = static_cast<std::byte*>(bytes) + done;
        const auto page = all_.find(at);
        if (page == all_.end() || page->second == nullptr) {
            std::memset(out, 0, part);
        } else {
            std::memcpy(out, page->second->data() + within, part);
        }
    });
}

}  // namespace shardweld::hdf5
