#include "pickle_memo.hpp"

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

void PickleMemo::keep_fetched(PickleReader reader) {
    keeps_all_ = false;
    try {
        find_fetched(reader);
    } catch (const Error&) {
        // The machine says it when it comes there.
    }
    std::size_t count = 0;
    for (Word& word : words_) {
        word.n_before = count;
        count += static_cast<std::size_t>(std::popcount(word.fetched));
    }
    entries_.grow(count);
}

void PickleMemo::find_fetched(PickleReader& reader) {
    for (unsigned char opcode = 0; opcode != '.';) {
        opcode = reader.next_opcode();
        const auto argument = reader.take_argument(kPickleOpcodes[opcode].argument);
        if (opcode == 'h') {
            add(raw_number<std::uint8_t>(argument), reader.position());
        } else if (opcode == 'j') {
            add(raw_number<std::uint32_t>(argument), reader.position());
        } else if (opcode == 'g') {
            add(static_cast<std::uint64_t>(parse_index(argument).value_or(-1)), reader.position());
        }
    }
}

// A slot beyond the bytes before it cannot have been put: every entry takes an opcode.
void PickleMemo::add(std::uint64_t slot, std::size_t limit) {
    if (slot >= limit) {
        return;
    }
    if (slot / kBits >= words_.size()) {
        words_.resize(slot / kBits + 1);
    }
    words_[slot / kBits].fetched |= std::uint64_t{1} << slot % kBits;
}

}  // namespace shardweld::formats
