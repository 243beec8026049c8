#include <array>
#include <cstdio>
#include <cstring>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/shared/zip.hpp"

namespace shardweld::formats {

namespace {

// Eight tables: table k advances the sum over a byte that k further bytes follow.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    constexpr std::uint32_t kPolynomial = 0xEDB88320U;
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t sum = byte;
        for (int bit = 0; bit < 8; ++bit) {
            sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? kPolynomial : 0U);
        }
        tables[0][byte] = sum;
    }
    for (std::size_t k = 1; k < tables.size(); ++k) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xFFU];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t seed) {
    std::uint32_t sum = ~seed;
    std::size_t i = 0;
    for (; bytes.size() - i >= 8; i += 8) {
        std::array<std::uint32_t, 2> words{};
        std::memcpy(words.data(), bytes.data() + i, sizeof(words));
        const std::uint32_t low = words[0] ^ sum;
        const std::uint32_t high = words[1];
        sum = kTables[7][low & 0xFFU] ^ kTables[6][(low >> 8U) & 0xFFU] ^
              kTables[5][(low >> 16U) & 0xFFU] ^ kTables[4][low >> 24U] ^ kTables[3][high & 0xFFU] ^
              kTables[2][(high >> 8U) & 0xFFU] ^ kTables[1][(high >> 16U) & 0xFFU] ^
              kTables[0][high >> 24U];
    }
    for (; i < bytes.size(); ++i) {
        sum = (sum >> 8U) ^ kTables[0][(sum ^ static_cast<std::uint32_t>(bytes[i])) & 0xFFU];
    }
    return ~sum;
}

std::string wrong_crc32(std::uint32_t found, std::uint32_t stated) {
    std::array<char, 160> text{};
    (void)std::snprintf(text.data(), text.size(),
                        " has the CRC-32 %08x, the file says %08x: its bytes were changed since it "
                        "was saved; copy it again",
                        found, stated);
    return text.data();
}

void require_crc32(std::string_view record, std::span<const std::byte> bytes,
                   std::uint32_t stated) {
    if (const std::uint32_t found = crc32(bytes); stated != 0 && found != stated) {
        throw Error(ErrorCode::corrupt,
                    "record " + printable(std::string(record)) + wrong_crc32(found, stated));
    }
}

}  // namespace shardweld::formats
