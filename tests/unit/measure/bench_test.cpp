// What the system says of pages in its cache, on a real file.
#include "measure/bench.hpp"

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::measure {
namespace {

TEST(PageCache, counts_what_was_read_and_lets_go_of_it) {
    const test::TemporaryDirectory directory;
    const Bytes size = 3 * 4096 + 5;
    const auto path = directory.put("file", std::string(size, 'x'));
    const io::InputFile file = io::InputFile::open(path);
    std::vector<std::byte> bytes(size);
    file.read_at(0, bytes);
    EXPECT_EQ(cached_bytes(file.fd(), 0, size), size);
    EXPECT_EQ(cached_bytes(file.fd(), 5000, 4096), 4096U);
    EXPECT_EQ(cached_bytes(file.fd(), 4096, 1), 1U);

    io::OutputFile::open_existing(path).sync();
    file.forget(0, size);
    const Bytes stayed = cached_bytes(file.fd(), 0, size);
    if (stayed == size) {
        GTEST_SKIP() << "SKIPPED: this file system keeps its pages (tmpfs does)";
    }
    EXPECT_EQ(stayed, 0U);
    file.read_at(0, std::span(bytes).first(1));
    EXPECT_GE(cached_bytes(file.fd(), 0, size), 4096U);
}

}  // namespace
}  // namespace shardweld::measure
