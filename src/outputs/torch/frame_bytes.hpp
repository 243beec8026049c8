// The frame of a file, gathered from front to back.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outputs/format.hpp"

namespace shardweld::outputs::torch {

/// Gathers all bytes of a file that are no tensor's.
class FrameBytes {
  public:
    /// Requires an offset not before the end of what was put last.
    void add_bytes(Bytes offset, std::string_view bytes);
    /// A checksum of this tensor belongs there.
    void put_checksum(std::uint32_t tensor, Bytes offset);
    [[nodiscard]] Frame finish() &&;

  private:
    std::vector<std::pair<Bytes, std::string>> parts_;  ///< bytes from an offset on
    std::vector<ChecksumPlace> checksums_;
};

}  // namespace shardweld::outputs::torch
