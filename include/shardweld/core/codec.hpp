// Plain values to bytes and back, for sharing metadata between ranks of one run.
// Not a file format: both sides are the same program on the same kind of machine.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/index.hpp"

namespace shardweld {

/// Appends values to a byte buffer.
class ByteWriter {
  public:
    template <typename T>
    requires std::is_trivially_copyable_v<T>
    void put(const T& value) {
        const auto* p = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), p, p + sizeof(T));
    }
    void put_text(const std::string& text) {
        put<std::uint64_t>(text.size());
        const auto* p = reinterpret_cast<const std::byte*>(text.data());
        bytes_.insert(bytes_.end(), p, p + text.size());
    }
    template <typename T>
    requires std::is_trivially_copyable_v<T>
    void put_all(std::span<const T> values) {
        put<std::uint64_t>(values.size());
        const auto* p = reinterpret_cast<const std::byte*>(values.data());
        bytes_.insert(bytes_.end(), p, p + values.size_bytes());
    }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

/// Reads back what ByteWriter wrote, in the same order. Throws Error(internal) past the end.
class ByteReader {
  public:
    explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    requires std::is_trivially_copyable_v<T> T get() {
        T value;
        std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
        return value;
    }
    std::string get_text() {
        const auto part = next(get<std::uint64_t>());
        return {reinterpret_cast<const char*>(part.data()), part.size()};
    }
    template <typename T>
    requires std::is_trivially_copyable_v<T> std::vector<T> get_all() {
        const auto count = get<std::uint64_t>();
        const auto part = next(count * sizeof(T));
        std::vector<T> values(count);
        if (!part.empty()) {
            std::memcpy(values.data(), part.data(), part.size());
        }
        return values;
    }
    [[nodiscard]] bool at_end() const { return position_ == bytes_.size(); }

  private:
    std::span<const std::byte> next(std::size_t size) {
        if (size > bytes_.size() - position_) {
            throw Error(ErrorCode::internal, "metadata shared between ranks is cut short");
        }
        position_ += size;
        return bytes_.subspan(position_ - size, size);
    }

    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
};

}  // namespace shardweld
