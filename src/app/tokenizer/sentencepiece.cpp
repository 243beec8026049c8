#include "sentencepiece.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace shardweld::app {

namespace {

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct ProtoField {
    std::uint64_t number = 0;
    Wire wire = Wire::varint;
    std::uint64_t value = 0;  ///< of numbers
    std::string_view bytes;
};

/// The fields of a message, one after another; stops at the first that is cut off or unknown.
class ProtoReader {
  public:
    explicit ProtoReader(std::string_view text) : rest_(text) {}

    [[nodiscard]] bool has_failed() const { return has_failed_; }

    bool next(ProtoField& field) {
        if (rest_.empty() || has_failed_) {
            return false;
        }
        const std::uint64_t tag = varint();
        field = {tag >> 3U, static_cast<Wire>(tag & 7U), 0, {}};
        switch (field.wire) {
            case Wire::varint:
                field.value = varint();
                break;
            case Wire::fixed64:
                field.bytes = take(8);
                break;
            case Wire::fixed32:
                field.bytes = take(4);
                break;
            case Wire::bytes:
                field.bytes = take(varint());
                break;
            default:
                has_failed_ = true;
        }
        return !has_failed_;
    }

  private:
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (rest_.empty()) {
                break;
            }
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
            if (byte < 0x80U) {
                return value;
            }
        }
        has_failed_ = true;
        return 0;
    }

    std::string_view take(std::uint64_t size) {
        if (size > rest_.size()) {
            has_failed_ = true;
            return {};
        }
        const auto bytes = rest_.substr(0, static_cast<std::size_t>(size));
        rest_.remove_prefix(bytes.size());
        return bytes;
    }

    std::string_view rest_;
    bool has_failed_ = false;
};

std::optional<Piece> piece_in(std::string_view text) {
    Piece piece;
    ProtoReader reader(text);
    for (ProtoField field; reader.next(field);) {
        if (field.number == 1 && field.wire == Wire::bytes) {
            piece.text = field.bytes;
        } else if (field.number == 2 && field.wire == Wire::fixed32) {
            std::memcpy(&piece.score, field.bytes.data(), sizeof(piece.score));
        } else if (field.number == 3 && field.wire == Wire::varint && field.value <= 6) {
            piece.type = static_cast<int>(field.value);
        }
    }
    return reader.has_failed() ? std::nullopt : std::optional(piece);
}

}  // namespace

std::optional<std::vector<Piece>> parse_pieces(std::string_view text) {
    std::vector<Piece> pieces;
    ProtoReader reader(text);
    for (ProtoField field; reader.next(field);) {
        if (field.number != 1 || field.wire != Wire::bytes) {
            continue;
        }
        auto piece = piece_in(field.bytes);
        if (!piece) {
            return std::nullopt;
        }
        pieces.push_back(std::move(*piece));
    }
    return reader.has_failed() || pieces.empty() ? std::nullopt : std::optional(std::move(pieces));
}

}  // namespace shardweld::app
