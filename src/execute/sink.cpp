#include "sink.hpp"

#include "shardweld/core/usage.hpp"

namespace shardweld::execute {

const io::OutputFile& Sink::file(std::uint32_t at) {
    if (!open_ || open_->at != at) {
        finish();
        open_ = {at, io::OutputFile::open_existing(directory_ / plan_.placement.files[at].name)};
    }
    return open_->file;
}

void Sink::put(const io::OutputFile& file, Bytes offset, std::span<const std::byte> bytes) {
    const double begin = wall_seconds();
    file.write_at(offset, bytes);
    // What is synced goes to the disk anyway: the sooner the better.
    if (sync_ || is_behind_) {
        behind_.add(file, offset, bytes.size());
    }
    is_behind_ = pace_.next(bytes.size(), wall_seconds() - begin);
    bytes_written_ += bytes.size();
}

void Sink::write(plan::LineRange range, std::span<const std::byte> bytes) {
    // Consecutive slices that follow each other in their file too are one write.
    const auto slices = plan::slices_of(plan_, range);
    for (std::size_t first = 0; first < slices.size();) {
        const outputs::Slot& slot = plan_.placement.slots[slices[first].target];
        std::size_t last = first + 1;
        while (last < slices.size() && follows(slices[last - 1], slices[last])) {
            ++last;
        }
        const Bytes line_end = last < slices.size() ? slices[last].line_begin : range.end;
        const Bytes size = size_of(plan_.targets[slices[first].target].dtype);
        const Bytes offset = slot.offset + static_cast<Bytes>(slices[first].begin) * size;
        const auto part = bytes.subspan(slices[first].line_begin - range.begin,
                                        line_end - slices[first].line_begin);
        put(file(slot.file), offset, part);
        first = last;
    }
}

bool Sink::follows(const plan::Slice& before, const plan::Slice& slice) const {
    const outputs::Slot& end = plan_.placement.slots[before.target];
    const outputs::Slot& begin = plan_.placement.slots[slice.target];
    return begin.file == end.file &&
           begin.offset == end.offset + plan_.targets[before.target].bytes();
}

void Sink::finish() {
    if (!open_) {
        return;
    }
    if (sync_) {
        behind_.finish(open_->file);
        open_->file.sync();
    }
    behind_ = {};
    open_->file.close();
    open_.reset();
}

}  // namespace shardweld::execute
