// A short value that stands for many: differences that happen show, not such that are made.
// Knows nothing of what it stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardweld {

/// FNV-1a over texts and bytes, and over numbers as a whole, in their order.
class Fingerprint {
  public:
    void add(std::string_view text) {
        for (const char c : text) {
            add_byte(static_cast<unsigned char>(c));
        }
        add_byte(0xff);  // no UTF-8 text holds it: "ab", "c" is not "a", "bc"
    }
    void add(std::uint64_t number) {
        // As FNV-1a takes a byte; the shift lets high bits reach low ones.
        value_ = (value_ ^ number) * kPrime;
        value_ ^= value_ >> 32U;
    }
    /// Without a mark where they end.
    void add(std::span<const std::byte> bytes) {
        for (const std::byte byte : bytes) {
            add_byte(std::to_integer<unsigned char>(byte));
        }
    }
    [[nodiscard]] std::uint64_t value() const { return value_; }

  private:
    void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * kPrime; }

    static constexpr std::uint64_t kPrime = 0x100000001b3U;

    std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace shardweld
