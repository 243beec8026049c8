// The memo of a pickle. Python puts nearly every object there and fetches few back: where memory
// counts, a first pass over the opcodes finds those, and all others are not kept.
// Knows which opcodes fetch; nothing of values.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "block_list.hpp"
#include "pickle_reader.hpp"

namespace shardweld::formats {

struct PickleValue;

class PickleMemo {
  public:
    /// Keeps only what the pickle that `reader` begins fetches; of a malformed one, as far as it
    /// goes.
    void keep_fetched(PickleReader reader);

    /// Where a value is put; nullptr for one that need not be kept.
    [[nodiscard]] PickleValue** to_put(std::uint64_t slot) {
        if (keeps_all_) {
            entries_.grow(slot + 1);
        }
        return entry(slot);
    }
    /// Where a value was put, if it was.
    [[nodiscard]] PickleValue** entry(std::uint64_t slot) {
        if (keeps_all_) {
            return slot < entries_.size() ? &entries_[slot] : nullptr;
        }
        if (slot / kBits >= words_.size()) {
            return nullptr;
        }
        const Word& word = words_[slot / kBits];
        const std::uint64_t bit = std::uint64_t{1} << slot % kBits;
        const auto before = static_cast<std::size_t>(std::popcount(word.fetched & (bit - 1)));
        return (word.fetched & bit) == 0 ? nullptr : &entries_[word.n_before + before];
    }

  private:
    static constexpr std::uint64_t kBits = 64;
    struct Word {
        std::uint64_t fetched = 0;  // a bit for each slot
        std::size_t n_before = 0;   // bits set in earlier words
    };
    void find_fetched(PickleReader& reader);
    void add(std::uint64_t slot, std::size_t limit);

    bool keeps_all_ = true;
    std::vector<Word> words_;
    BlockList<PickleValue*> entries_;
};

}  // namespace shardweld::formats
