#include "frame_bytes.hpp"

#include <memory>
#include <span>
#include <utility>

namespace shardweld::outputs::torch {

void FrameBytes::add_bytes(Bytes offset, std::string_view bytes) {
    if (parts_.empty() || parts_.back().offset + parts_.back().size != offset) {
        parts_.push_back({offset, bytes_.size(), 0});
    }
    bytes_ += bytes;
    parts_.back().size += bytes.size();
}

void FrameBytes::put_checksum(std::uint32_t tensor, Bytes offset) {
    checksums_.push_back({tensor, offset});
}

Frame FrameBytes::finish() && {
    const auto owner = std::make_shared<const std::string>(std::move(bytes_));
    const auto bytes = std::as_bytes(std::span(*owner));
    Frame frame;
    for (const FrameSpan& part : parts_) {
        frame.parts.push_back({part.offset, bytes.subspan(part.begin, part.size)});
    }
    frame.owner = owner;
    frame.checksums = std::move(checksums_);
    return frame;
}

}  // namespace shardweld::outputs::torch
