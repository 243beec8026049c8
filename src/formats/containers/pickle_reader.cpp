#include "pickle_reader.hpp"

#include "shardweld/error.hpp"

#include "pickle.hpp"

namespace shardweld::formats {

void PickleReader::fail(const std::string& message) const {
    throw Error(ErrorCode::corrupt,
                "pickle: " + message + " (opcode at byte " + std::to_string(opcode_at_) + ")");
}

void PickleReader::refuse_opcode() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::string code = {'0', 'x', kDigits[opcode() >> 4U], kDigits[opcode() & 15U]};
    if (kPickleOpcodes[opcode()].name == nullptr) {
        fail("unknown opcode " + code);
    }
    fail("disallowed opcode " + opcode_name() + " (" + code + "): no trainer writes it");
}

std::string_view PickleReader::take_signed(std::int32_t size) {
    if (size < 0) {
        fail(opcode_name() + " has the negative length " + std::to_string(size));
    }
    return take(static_cast<std::uint64_t>(size));
}

std::string_view PickleReader::take_lines(int count) {
    const std::size_t begin = position_;
    for (int i = 0; i < count; ++i) {
        const std::size_t end = bytes_.find('\n', position_);
        if (end == std::string_view::npos) {
            throw PickleCutShort("pickle: " + opcode_name() + " at byte " +
                                 std::to_string(position_) + " has no end of line");
        }
        position_ = end + 1;
    }
    return bytes_.substr(begin, position_ - 1 - begin);
}

void PickleReader::throw_no_stop() const {
    throw PickleCutShort(bytes_.empty() ? "pickle: it is empty"
                                        : "pickle: ends without STOP after " +
                                              std::to_string(position_) + " bytes");
}

void PickleReader::throw_cut_short(std::uint64_t size) const {
    throw PickleCutShort("pickle: " + opcode_name() + " runs past the end: " +
                         std::to_string(size) + " bytes at byte " + std::to_string(position_) +
                         ", " + std::to_string(bytes_.size() - position_) + " left");
}

}  // namespace shardweld::formats
