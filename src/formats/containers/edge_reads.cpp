#include "edge_reads.hpp"

#include <algorithm>

#include "io/input_file.hpp"

namespace shardweld::formats {

namespace {

// An archive of one tensor has its pickle and headers in front and its directory behind, well under
// a thousand bytes each.
constexpr Bytes kEdgeBytes = 4096;
// On a file system far away a call takes as long as some 100 KiB do.
constexpr Bytes kWorthReading = 65536;
// Held twice by each thread.
constexpr Bytes kLargestWindow = 131072;

}  // namespace

EdgeReads::EdgeReads(const io::InputFile& file, std::span<const ArchiveRange> archives)
    : file_(&file) {
    const auto want = [&](Bytes begin, Bytes end) {
        if (!windows_.empty()) {
            Window& last = windows_.back();
            if (begin - last.end <= kWorthReading && end - last.begin <= kLargestWindow) {
                last.end = end;
                return;
            }
        }
        windows_.push_back({begin, end});
    };
    for (const ArchiveRange& archive : archives) {
        const Bytes end = archive.begin + archive.bytes;
        if (archive.bytes <= kWorthReading + 2 * kEdgeBytes) {
            want(archive.begin, end);
        } else {
            want(archive.begin, archive.begin + kEdgeBytes);
            want(end - kEdgeBytes, end);
        }
    }
}

std::span<const std::byte> EdgeReads::at(Bytes offset, Bytes bytes) {
    for (const Held& held : held_) {
        if (!held.bytes.empty() && held.window.holds(offset, bytes)) {
            return std::span(held.bytes).subspan(offset - held.window.begin, bytes);
        }
    }
    while (next_ < windows_.size() && windows_[next_].end <= offset) {
        ++next_;
    }
    if (next_ == windows_.size() || !windows_[next_].holds(offset, bytes)) {
        return {};
    }
    Held& held = held_[oldest_];
    oldest_ = 1 - oldest_;
    held.window = windows_[next_++];
    held.bytes.resize(to_size(held.window.end - held.window.begin, "a read"));
    file_->read_at(held.window.begin, held.bytes);
    return std::span(held.bytes).subspan(offset - held.window.begin, bytes);
}

}  // namespace shardweld::formats
