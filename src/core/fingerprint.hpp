// A short value that stands for many: differences that happen show, not such that are made.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "index.hpp"

namespace shardweld {

/// FNV-1a over words of eight bytes, in their order; what is left of a text is a word with
/// its length.
class Fingerprint {
  public:
    /// Where it ends counts: "ab", "c" is not "a", "bc".
    void add(std::string_view text) {
        add_words(std::as_bytes(std::span(text)));
        add(text.size());
    }
    void add(std::uint64_t number) {
        // The shift lets high bits reach low ones.
        value_ = (value_ ^ number) * kPrime;
        value_ ^= value_ >> 32U;
    }
    /// Without a mark where they end.
    void add(ByteView bytes) { add_words(bytes); }
    [[nodiscard]] std::uint64_t value() const { return value_; }

  private:
    void add_words(ByteView bytes) {
        std::uint64_t word = 0;
        for (; bytes.size() >= sizeof(word); bytes = bytes.subspan(sizeof(word))) {
            std::memcpy(&word, bytes.data(), sizeof(word));
            add(word);
        }
        if (!bytes.empty()) {
            word = bytes.size() << 56U;
            std::memcpy(&word, bytes.data(), bytes.size());
            add(word);
        }
    }

    static constexpr std::uint64_t kPrime = 0x100000001b3U;

    std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace shardweld
