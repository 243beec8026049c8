#include "io/cursor.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld::io {
namespace {

using test::error_text;

TEST(Cursor, reads_in_order) {
    const std::string data("\x01\x02\x03\x04xyz!", 8);
    Cursor cursor(std::as_bytes(std::span(data)));
    EXPECT_EQ(cursor.get<std::uint16_t>("a"), 0x0201U);
    EXPECT_EQ(cursor.position(), 2U);
    cursor.seek(4, "b");
    EXPECT_EQ(cursor.text(3, "c"), "xyz");
    EXPECT_EQ(cursor.remaining(), 1U);
}

TEST(Cursor, refuses_to_pass_the_end) {
    const std::string data = "abcd";
    Cursor cursor(std::as_bytes(std::span(data)), 100);
    cursor.take(3, "a");
    EXPECT_EQ(error_text([&] { cursor.get<std::uint32_t>("the size"); }),
              "corrupt: the size runs past the end: 4 bytes at offset 103, 1 left");
    EXPECT_EQ(
        error_text([&] { cursor.take(~std::uint64_t{0}, "a name"); }),
        "corrupt: a name runs past the end: 18446744073709551615 bytes at offset 103, 1 left");
    EXPECT_EQ(error_text([&] { cursor.seek(5, "a field"); }),
              "corrupt: a field points past the end");
    EXPECT_EQ(cursor.remaining(), 1U);
}

}  // namespace
}  // namespace shardweld::io
