#include "formats/containers/gguf_header.hpp"

#include <cstdint>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "shardweld/error.hpp"
#include "support/memory_file.hpp"

namespace shardweld::formats {
namespace {

template <typename Number>
std::string bytes_of(Number value) {
    std::string bytes(sizeof(value), '\0');
    std::memcpy(bytes.data(), &value, sizeof(value));
    return bytes;
}

std::string u32(std::uint32_t value) {
    return bytes_of(value);
}

std::string u64(std::uint64_t value) {
    return bytes_of(value);
}

std::string text(const std::string& value) {
    return u64(value.size()) + value;
}

std::string tensor(const std::string& name, std::uint64_t columns, std::uint32_t type,
                   std::uint64_t offset) {
    return text(name) + u32(2) + u64(columns) + u64(2) + u32(type) + u64(offset);
}

std::string start(std::uint64_t n_tensors, std::uint64_t n_keys) {
    return "GGUF" + u32(3) + u64(n_tensors) + u64(n_keys);
}

/// Two tensors of two rows, with a list of texts and one of numbers before them.
std::string small_file() {
    std::string file = start(2, 3) + text("tokens") + u32(9) + u32(8) + u64(2) + text("a") +
                       text("bc") + text("scores") + u32(9) + u32(6) + u64(3) +
                       std::string(12, '\1') + text("general.alignment") + u32(4) + u32(64) +
                       tensor("a", 64, 8, 0) + tensor("b", 3, 0, 192);
    file.resize((file.size() + 63) / 64 * 64);
    return file + std::string(192, '\2') + std::string(24, '\3');
}

GgufHeader read(const std::string& bytes) {
    const test::MemoryFile file(bytes);
    return read_gguf(io::InputFile::open(file.path()));
}

TEST(GgufHeader, tells_where_tensors_lie) {
    const std::string file = small_file();
    const GgufHeader header = read(file);
    EXPECT_EQ(header.keys, (std::set<std::string>{"general.alignment", "scores", "tokens"}));
    const StoredTensor& blocks = header.tensors.at("a");
    EXPECT_EQ(blocks.dtype, DType::u8);
    EXPECT_EQ(blocks.shape, (std::vector<Index>{2, 68}));
    EXPECT_EQ(blocks.storage_offset, file.size() - 24 - 192);
    const StoredTensor& floats = header.tensors.at("b");
    EXPECT_EQ(floats.dtype, DType::f32);
    EXPECT_EQ(floats.shape, (std::vector<Index>{2, 3}));
    EXPECT_EQ(floats.storage_offset + floats.storage_bytes, file.size());
}

TEST(GgufHeader, refuses_what_is_cut_short) {
    const std::string file = small_file();
    for (std::size_t n = 0; n < file.size(); ++n) {
        EXPECT_THROW((void)read(file.substr(0, n)), Error) << n;
    }
}

TEST(GgufHeader, refuses_what_no_writer_writes) {
    const std::string data(4096, '\0');
    for (const std::string& header : {
             "GGUF" + u32(1) + u64(0) + u64(0),
             "GGUF" + u32(4) + u64(0) + u64(0),
             "GGML" + u32(3) + u64(0) + u64(0),
             start(~std::uint64_t{0}, 0),
             start(0, ~std::uint64_t{0}),
             start(1, 0) + text("a") + u32(5) + u64(1) + u64(1) + u64(1) + u64(1) + u64(1),
             start(1, 0) + tensor("a", 33, 8, 0),                       // no whole blocks
             start(1, 0) + tensor("a", 32, 99, 0),                      // no type
             start(1, 0) + tensor("a", 32, 0, 32),                      // a hole
             start(1, 0) + tensor("a", std::uint64_t{1} << 62U, 0, 0),  // no such file
             start(2, 0) + tensor("a", 32, 0, 0) + tensor("a", 32, 0, 256),
             start(0, 1) + text("a") + u32(9) + u32(9) + u64(1),
             start(0, 1) + text("a") + u32(9) + u32(4) + u64(std::uint64_t{1} << 62U),
             start(0, 1) + text("a") + u32(13) + u32(0),
             start(0, 1) + u64(std::uint64_t{1} << 40U),
             start(0, 1) + text("general.alignment") + u32(4) + u32(0),
             start(0, 2) + text("a") + u32(7) + '\1' + text("a") + u32(7) + '\1',
             start(0, 1) + text("a") + u32(9) + u32(8) + u64(std::uint64_t{1} << 62U),
         }) {
        EXPECT_THROW((void)read(header + data), Error) << header;
    }
}

}  // namespace
}  // namespace shardweld::formats
