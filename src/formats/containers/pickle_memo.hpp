// The memo of a pickle. Python puts nearly every object there and fetches few back: where memory
// counts, a first pass over the opcodes finds those, and all others are not kept.
// Knows how long opcodes' arguments are, not what they mean. Opcodes: CPython 3.11
// Lib/pickletools.py.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardweld::formats {

struct PickleValue;

/// Which entries of the memo are ever fetched.
class PickleRecalls {
  public:
    /// Of the pickle at the start of `bytes`; of a malformed one, as far as it goes.
    explicit PickleRecalls(std::string_view bytes);

    [[nodiscard]] bool has(std::uint64_t slot) const {
        return slot / kBits < words_.size() && ((words_[slot / kBits] >> (slot % kBits)) & 1U) != 0;
    }
    /// The number of fetched entries before `slot`.
    [[nodiscard]] std::size_t place(std::uint64_t slot) const {
        if (slot < early_.size()) {
            return early_[slot];
        }
        const std::uint64_t below = words_[slot / kBits] & ((std::uint64_t{1} << slot % kBits) - 1);
        return before_[slot / kBits] + static_cast<std::size_t>(__builtin_popcountll(below));
    }
    [[nodiscard]] std::size_t count() const { return count_; }

  private:
    static constexpr std::uint64_t kBits = 64;
    void add(std::uint64_t slot, std::size_t limit);

    std::vector<std::uint64_t> words_;        // a bit for each slot
    std::vector<std::uint32_t> before_;       // bits set in earlier words
    std::array<std::uint32_t, 256> early_{};  // the same for the slots that are fetched most
    std::size_t count_ = 0;
};

}  // namespace shardweld::formats
