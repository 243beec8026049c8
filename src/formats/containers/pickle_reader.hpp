// A pickle's bytes as opcodes and what follows each, and its texts, decoded.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace shardweld::formats {

/// What follows an opcode.
enum class PickleArgument : std::uint8_t {
    nothing = 0,
    bytes1 = 1,  ///< so many bytes
    bytes2 = 2,
    bytes4 = 4,
    bytes8 = 8,
    sized1,  ///< a length of so many bytes, and as many bytes as it says
    sized4,
    sized8,
    signed4,
    line,
    lines  ///< two
};

struct PickleOpcode {
    const char* name = nullptr;  ///< null: there is none of this code
    PickleArgument argument = PickleArgument::nothing;
};
inline constexpr std::array<PickleOpcode, 256> kPickleOpcodes = [] {
    std::array<PickleOpcode, 256> table{};
#define STEP(code, name, argument, ...) table[code] = {#name, PickleArgument::argument};
#define KEEP STEP
#define VALUE STEP
#define REFUSED(code, name) table[code] = {#name, PickleArgument::nothing};
#include "pickle_opcodes.def"
    return table;
}();

/// The number of which these are the bytes.
template <typename T>
T raw_number(std::string_view raw) {
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
}

/// All errors are Error(corrupt) with the opcode or place; PickleCutShort where the bytes end.
class PickleReader {
  public:
    explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

    [[gnu::always_inline]] unsigned char next_opcode() {
        if (position_ == bytes_.size()) {
            throw_no_stop();
        }
        opcode_at_ = position_;
        return static_cast<unsigned char>(bytes_[position_++]);
    }

    /// Without its length, and without the last end of line.
    [[gnu::always_inline]] std::string_view take_argument(PickleArgument kind) {
        switch (kind) {
            case PickleArgument::sized1:
                return take(raw_number<std::uint8_t>(take(1)));
            case PickleArgument::sized4:
                return take(raw_number<std::uint32_t>(take(4)));
            case PickleArgument::sized8:
                return take(raw_number<std::uint64_t>(take(8)));
            case PickleArgument::signed4:
                return take_signed(raw_number<std::int32_t>(take(4)));
            case PickleArgument::line:
                return take_lines(1);
            case PickleArgument::lines:
                return take_lines(2);
            default:
                return take(static_cast<std::uint64_t>(kind));
        }
    }

    [[noreturn]] void fail(const std::string& message) const;
    /// For what no trainer writes, but an attacker would: nobody should load such a file.
    [[noreturn]] void refuse_hostile(const std::string& message) const;
    /// Refuses the opcode that was read last.
    [[noreturn]] void refuse_opcode() const;
    /// Its name.
    [[nodiscard]] std::string opcode_name() const { return kPickleOpcodes[opcode()].name; }

    [[nodiscard]] std::size_t position() const { return position_; }
    [[nodiscard]] std::size_t opcode_at() const { return opcode_at_; }
    /// PickleCutShort when fewer bytes are left.
    void require(std::uint64_t size) const {
        if (size > bytes_.size() - position_) {
            throw_cut_short(size);
        }
    }

  private:
    [[nodiscard]] unsigned char opcode() const {
        return static_cast<unsigned char>(bytes_[opcode_at_]);
    }
    [[gnu::always_inline]] std::string_view take(std::uint64_t size) {
        require(size);
        position_ += size;
        return {bytes_.data() + (position_ - size), size};
    }
    std::string_view take_signed(std::int32_t size);
    std::string_view take_lines(int count);
    [[noreturn]] void throw_no_stop() const;
    [[noreturn]] void throw_cut_short(std::uint64_t size) const;

    std::string_view bytes_;
    std::size_t position_ = 0;
    std::size_t opcode_at_ = 0;
};

/// Python's repr() of a text: in quotes, with escapes.
std::optional<std::string> text_of_repr(std::string_view text);

/// raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
std::optional<std::string> text_of_raw_unicode(std::string_view text);

/// The bytes whose values are the code points of UTF-8 `text`; nullopt where one is above 255.
std::optional<std::string> bytes_of_latin1(std::string_view text);

}  // namespace shardweld::formats
