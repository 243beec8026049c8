#include "pickle_memo.hpp"

#include <array>
#include <charconv>
#include <cstring>

namespace shardweld::formats {

namespace {

/// What follows an opcode: so many bytes; a length of 1, 4 or 8 bytes and as many bytes as it says;
/// one or two lines.
enum class Argument : std::uint8_t {
    fixed0,
    fixed1,
    fixed2,
    fixed4,
    fixed8,
    length1,
    length4,
    length8,
    line,
    lines
};

constexpr std::array<Argument, 256> make_arguments() {
    std::array<Argument, 256> table{};
    const auto set = [&table](std::initializer_list<unsigned> opcodes, Argument argument) {
        for (const unsigned opcode : opcodes) {
            table.at(opcode) = argument;
        }
    };
    set({'K', 'q', 'h', 0x80, 0x82}, Argument::fixed1);
    set({'M', 0x83}, Argument::fixed2);
    set({'J', 'r', 'j', 0x84}, Argument::fixed4);
    set({'G', 0x95}, Argument::fixed8);
    set({'U', 'C', 0x8a, 0x8c}, Argument::length1);
    set({'T', 'X', 'B', 0x8b}, Argument::length4);
    set({0x8d, 0x8e, 0x96}, Argument::length8);
    set({'I', 'L', 'F', 'S', 'V', 'g', 'p', 'P'}, Argument::line);
    set({'c', 'i'}, Argument::lines);
    return table;
}
constexpr std::array<Argument, 256> kArguments = make_arguments();

// Bytes of arguments of a fixed size, which most are; kVaries for others.
constexpr std::uint8_t kVaries = 0xff;
constexpr std::array<std::uint8_t, 256> make_sizes() {
    constexpr std::array<std::uint8_t, 5> kFixed = {0, 1, 2, 4, 8};  // in the order of Argument
    std::array<std::uint8_t, 256> sizes{};
    for (std::size_t opcode = 0; opcode < sizes.size(); ++opcode) {
        const auto argument = static_cast<std::size_t>(kArguments[opcode]);
        sizes[opcode] = argument < kFixed.size() ? kFixed[argument] : kVaries;
    }
    return sizes;
}
constexpr std::array<std::uint8_t, 256> kSizes = make_sizes();

constexpr std::size_t kCutShort = ~std::size_t{0};

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
}

// Bytes of an argument of no fixed size at `at`; kCutShort when it runs past the end.
std::size_t argument_bytes(std::string_view bytes, std::size_t at, Argument argument) {
    const std::size_t left = bytes.size() - at;
    const auto sized = [&](std::size_t head) {
        if (head > left) {
            return kCutShort;
        }
        const std::uint64_t size = number_at(bytes, at, head);
        return size <= left - head ? head + size : kCutShort;
    };
    const auto line = [&](std::size_t from) {
        const std::size_t end = bytes.find('\n', from);
        return end == std::string_view::npos ? kCutShort : end + 1;
    };
    switch (argument) {
        case Argument::length1:
            return sized(1);
        case Argument::length4:
            return sized(4);
        case Argument::length8:
            return sized(8);
        case Argument::line: {
            const std::size_t end = line(at);
            return end == kCutShort ? kCutShort : end - at;
        }
        case Argument::lines: {
            const std::size_t first = line(at);
            const std::size_t end = first == kCutShort ? kCutShort : line(first);
            return end == kCutShort ? kCutShort : end - at;
        }
        default:
            return kCutShort;
    }
}

}  // namespace

// A slot that is larger than the bytes before it is refused by the machine.
void PickleRecalls::add(std::uint64_t slot, std::size_t limit) {
    if (slot >= limit) {
        return;
    }
    if (slot / kBits >= words_.size()) {
        words_.resize(slot / kBits + 1, 0);
    }
    words_[slot / kBits] |= std::uint64_t{1} << slot % kBits;
}

PickleRecalls::PickleRecalls(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
        const auto opcode = static_cast<unsigned char>(bytes[at++]);
        std::size_t size = kSizes[opcode];
        if (size == kVaries) {
            size = argument_bytes(bytes, at, kArguments[opcode]);
        }
        if (opcode == '.' || size > bytes.size() - at) {  // or kCutShort
            break;
        }
        if (opcode == 'h' || opcode == 'j') {
            add(number_at(bytes, at, size), at);
        } else if (opcode == 'g') {
            std::uint64_t slot = 0;
            std::from_chars(bytes.data() + at, bytes.data() + at + size, slot);
            add(slot, at);
        }
        at += size;
    }
    before_.reserve(words_.size());
    for (const std::uint64_t word : words_) {
        before_.push_back(static_cast<std::uint32_t>(count_));
        count_ += static_cast<std::size_t>(__builtin_popcountll(word));
    }
    std::uint32_t n_fetched = 0;
    for (std::size_t slot = 0; slot < early_.size(); ++slot) {
        early_[slot] = n_fetched;
        n_fetched += has(slot) ? 1U : 0U;
    }
}

}  // namespace shardweld::formats
