// SHA-256 of files against the vectors of FIPS 180-4; digests of streams.
#include "io/digest.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

using test::TemporaryDirectory;

TEST(DigestStream, is_the_digest_of_the_whole) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < 5000; ++i) {
        bytes.push_back(static_cast<std::byte>(i * i % 251));
    }
    EXPECT_EQ(DigestStream().digest(), digest_of({}));
    for (const std::size_t piece : {1U, 240U, 4999U}) {
        DigestStream stream;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            stream.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
        }
        EXPECT_EQ(stream.digest(), digest_of(bytes));
        stream.reset();
        EXPECT_EQ(stream.digest(), digest_of({}));
    }
}

TEST(Sha256, is_that_of_the_standard) {
    const TemporaryDirectory place;
    const auto path = place.path() / "file";
    const auto sum = [&] { return sha256_of(InputFile::open(path)); };
    std::ofstream(path).flush();
    EXPECT_EQ(sum(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    std::ofstream(path) << "abc";
    EXPECT_EQ(sum(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    // A million times "a": several reads, the last one not full.
    std::ofstream(path) << std::string(1'000'000, 'a');
    EXPECT_EQ(sum(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace shardweld::io
