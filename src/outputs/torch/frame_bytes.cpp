#include "frame_bytes.hpp"

#include <memory>
#include <span>

namespace shardweld::outputs::torch {

void FrameBytes::add_bytes(Bytes offset, std::string_view bytes) {
    if (parts_.empty() || parts_.back().first + parts_.back().second.size() != offset) {
        parts_.emplace_back(offset, "");
    }
    parts_.back().second += bytes;
}

void FrameBytes::put_checksum(std::uint32_t tensor, Bytes offset) {
    checksums_.push_back({tensor, offset});
}

Frame FrameBytes::finish() && {
    const auto owner = std::make_shared<const decltype(parts_)>(std::move(parts_));
    Frame frame;
    for (const auto& [offset, bytes] : *owner) {
        frame.parts.push_back({offset, std::as_bytes(std::span(bytes))});
    }
    frame.owner = owner;
    frame.checksums = std::move(checksums_);
    return frame;
}

}  // namespace shardweld::outputs::torch
