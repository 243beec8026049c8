// A bounds-checked cursor over bytes from a file.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/index.hpp"
#include "shardweld/error.hpp"

namespace shardweld::io {

/// A position in bytes that are read from front to back. Error(corrupt) behind their end.
class Cursor {
  public:
    explicit Cursor(ByteView bytes, Bytes base = 0) : bytes_(bytes), base_(base) {}

    [[nodiscard]] std::size_t position() const { return position_; }
    [[nodiscard]] std::size_t remaining() const { return bytes_.size() - position_; }

    /// The next `size` bytes.
    ByteView take(std::uint64_t size, std::string_view what) {
        if (size > remaining()) {
            throw Error(ErrorCode::corrupt,
                        std::string(what) + " runs past the end: " + std::to_string(size) +
                            " bytes at offset " + std::to_string(base_ + position_) + ", " +
                            std::to_string(remaining()) + " left");
        }
        const auto part = bytes_.subspan(position_, size);
        position_ += size;
        return part;
    }
    /// The next little-endian value (hosts are little-endian: checked at start-up).
    template <typename T>
    requires std::is_trivially_copyable_v<T> T get(std::string_view what) {
        T value;
        std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
        return value;
    }
    std::string_view text(std::uint64_t size, std::string_view what) {
        const auto part = take(size, what);
        return {reinterpret_cast<const char*>(part.data()), part.size()};
    }
    void seek(std::uint64_t position, std::string_view what) {
        if (position > bytes_.size()) {
            throw Error(ErrorCode::corrupt, std::string(what) + " points past the end");
        }
        position_ = position;
    }

  private:
    ByteView bytes_;
    Bytes base_;
    std::size_t position_ = 0;
};

}  // namespace shardweld::io
