#include "sink.hpp"

namespace shardweld::execute {

io::OutputFile& Sink::file(std::uint32_t at) {
    auto found = open_.find(at);
    if (found == open_.end()) {
        found = open_
                    .emplace(at, io::OutputFile::open_existing(directory_ /
                                                               plan_.placement.files[at].name))
                    .first;
    }
    return found->second;
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
        file(slot.file).write_at(offset, part);
        bytes_written_ += part.size();
        first = last;
    }
}

bool Sink::follows(const plan::Slice& before, const plan::Slice& slice) const {
    const outputs::Slot& end = plan_.placement.slots[before.target];
    const outputs::Slot& begin = plan_.placement.slots[slice.target];
    return begin.file == end.file &&
           begin.offset == end.offset + plan_.targets[before.target].bytes();
}

void Sink::finish(bool sync) {
    for (auto& [at, file] : open_) {
        if (sync) {
            file.sync();
        }
        file.close();
    }
    open_.clear();
}

}  // namespace shardweld::execute
