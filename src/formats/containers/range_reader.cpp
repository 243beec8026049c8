#include "range_reader.hpp"

#include <algorithm>

#include "io/advice.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr Bytes kPage = 4096;
// On a file system far away a call takes as long as some 100 KiB do.
constexpr Bytes kWorthReading = 65536;
// Held twice by each thread.
constexpr Bytes kLargestWindow = 1U << 20U;

Bytes page_before(Bytes offset) {
    return offset / kPage * kPage;
}

/// Not behind the end of the file.
Bytes page_behind(Bytes offset, const io::InputFile& file) {
    return std::min(page_before(offset + kPage - 1), file.size());
}

}  // namespace

EdgeReads::EdgeReads(const io::InputFile& file, std::span<const ArchiveRange> archives)
    : file_(&file) {
    io::read_in_pieces(file);
    // The system reads whole pages, and copies what it is asked for.
    const auto want = [&](Bytes begin, Bytes end) {
        if (!windows_.empty()) {
            ArchiveRange& last = windows_.back();
            if (page_before(begin) <= page_behind(last.begin + last.bytes, file) + kWorthReading &&
                page_behind(end, file) - page_before(last.begin) <= kLargestWindow) {
                last.bytes = std::max(last.bytes, end - last.begin);
                return;
            }
        }
        windows_.push_back({begin, end - begin});
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

ByteView EdgeReads::at(Bytes offset, Bytes bytes) {
    for (const HeldBytes& held : held_) {
        if (!held.bytes.empty() && held.holds(offset, bytes)) {
            return held.at(offset, bytes);
        }
    }
    while (next_ < windows_.size() && windows_[next_].begin + windows_[next_].bytes <= offset) {
        ++next_;
    }
    if (next_ == windows_.size() || offset < windows_[next_].begin ||
        bytes > windows_[next_].begin + windows_[next_].bytes - offset) {
        return {};
    }
    HeldBytes& held = held_[oldest_];
    oldest_ = 1 - oldest_;
    held.begin = windows_[next_].begin;
    held.bytes.resize(to_size(windows_[next_++].bytes, "a read"));
    file_->read_at(held.begin, held.bytes);
    return held.at(offset, bytes);
}

namespace {

// The ends of a torch blob: its pickle and headers in front, its directory behind.
constexpr Bytes kLeastRead = 4096;
// Larger files have larger directories.
constexpr Bytes kLargestTail = 65536;
constexpr Bytes kTailShare = 256;
// A range up to this size is read at once.
constexpr Bytes kWholeBytes = 16384;

}  // namespace

RangeReader::RangeReader(const io::InputFile& file, Bytes begin, Bytes length, EdgeReads* edges)
    : file_(&file),
      edges_(edges),
      begin_(begin),
      length_(length),
      tail_bytes_(std::clamp(length / kTailShare, kLeastRead, kLargestTail)) {
    if (edges == nullptr) {
        io::read_in_pieces(file);
    }
    if (begin > file.size() || length > file.size() - begin) {
        throw Error(ErrorCode::corrupt, "an item of " + std::to_string(length) +
                                            " bytes at offset " + std::to_string(begin) +
                                            " lies outside its file " + file.path().string() +
                                            " of " + std::to_string(file.size()) + " bytes");
    }
}

void RangeReader::check(Bytes offset, Bytes size, std::string_view what) const {
    if (offset > length_ || size > length_ - offset) {
        throw Error(ErrorCode::corrupt, std::string(what) +
                                            " lies outside the archive: " + std::to_string(size) +
                                            " bytes at offset " + std::to_string(offset) + " of " +
                                            std::to_string(length_));
    }
}

void RangeReader::load(HeldBytes& window, Bytes offset, Bytes size) const {
    // Whole pages, as far as they are the range's.
    const Bytes first = std::max(page_before(begin_ + offset), begin_);
    const Bytes end = std::min(page_behind(begin_ + offset + size, *file_), begin_ + length_);
    window.begin = first - begin_;
    window.bytes.resize(to_size(end - first, "a read"));
    file_->read_at(first, window.bytes);
}

ByteView RangeReader::at(Bytes offset, Bytes size, std::string_view what) {
    check(offset, size, what);
    if (edges_ != nullptr && size != 0) {
        if (const auto part = edges_->at(begin_ + offset, size); !part.empty()) {
            return part;
        }
    }
    const Bytes head_size = length_ <= kWholeBytes ? length_ : kLeastRead;
    HeldBytes* window = &moving_;
    if (offset + size <= head_size) {
        window = &head_;
        if (head_.bytes.empty()) {
            load(head_, 0, head_size);
        }
    } else if (offset >= length_ - tail_bytes_) {
        window = &tail_;
        if (tail_.bytes.empty()) {
            load(tail_, length_ - tail_bytes_, tail_bytes_);
        }
    } else if (!moving_.holds(offset, size)) {
        load(moving_, offset, std::min(std::max(size, kLeastRead), length_ - offset));
    }
    return window->at(offset, to_size(size, what));
}

std::vector<std::byte> RangeReader::copy(Bytes offset, Bytes size, std::string_view what,
                                         std::vector<std::byte> memory) {
    if (size <= kWholeBytes || offset >= length_ - tail_bytes_) {
        const auto part = at(offset, size, what);
        memory.assign(part.begin(), part.end());
        return memory;
    }
    check(offset, size, what);
    if (memory.capacity() < size) {
        memory = {};  // nothing to be moved
    }
    memory.resize(to_size(size, what));
    file_->read_at(begin_ + offset, memory);
    return memory;
}

}  // namespace shardweld::formats
