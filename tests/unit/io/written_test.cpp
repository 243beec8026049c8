#include "io/written.hpp"

#include <fstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "io/output_file.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

using test::error_text;
using test::TemporaryDirectory;

constexpr Bytes kBlock = 4096;
constexpr std::size_t kBlocks = 200;

/// A file of blocks that differ, as a run writes one.
class Sample : public ::testing::Test {
  protected:
    Sample() : directory_(place_.path()) {
        OutputFile out = OutputFile::create(directory_, "f");
        out.resize(kBlock * kBlocks);
        out.reserve(kBlock * kBlocks);
        file_.name = "f";
        for (std::size_t i = 0; i < kBlocks; ++i) {
            const std::vector<std::byte> bytes(kBlock, static_cast<std::byte>(i + 1));
            out.write_at(i * kBlock, bytes);
            file_.stretches.push_back({i * kBlock, kBlock, digest_of(bytes)});
        }
        file_.identity = identity_of(out.fd(), path());
        out.close();
    }

    [[nodiscard]] fs::path path() const { return place_.path() / "f"; }

    /// The block that is said to be changed; -1: none.
    [[nodiscard]] int changed(bool all) const {
        Bytes read = 0;
        const auto found = first_changed(directory_, "f", file_.identity, file_.stretches,
                                         {all, all, [&](Bytes bytes) { read += bytes; }});
        if (!found && !all) {
            EXPECT_EQ(read, 5 * kBlock);
        }
        return found ? static_cast<int>(found->offset / kBlock) : -1;
    }

    void scribble(std::size_t block) const {
        std::fstream out(path(), std::ios::binary | std::ios::in | std::ios::out);
        out.seekp(static_cast<std::streamoff>(block * kBlock + 17));
        out.put('x');
    }

    TemporaryDirectory place_;
    Directory directory_;
    WrittenFile file_;
};

TEST_F(Sample, is_what_was_written) {
    EXPECT_EQ(changed(false), -1);
    EXPECT_EQ(changed(true), -1);
    EXPECT_EQ(error_text([&] {
                  require_as_written(directory_, file_, {true, false});
              }),
              "no error");
}

TEST_F(Sample, is_read_back_in_samples_or_whole) {
    scribble(100);
    EXPECT_EQ(changed(false), -1) << "no sample";
    EXPECT_EQ(changed(true), 100);
    for (const std::size_t sample : {kBlocks - 1, std::size_t{128}, std::size_t{0}}) {
        scribble(sample);
        EXPECT_EQ(changed(false), static_cast<int>(sample));
    }
    EXPECT_EQ(error_text([&] {
                  require_as_written(directory_, file_, {true, false});
              }),
              "io: " + path().string() +
                  " holds other bytes than were written at offset 0: another program changed it "
                  "while this run wrote it; nothing is published; keep programs that clean scratch "
                  "space away from the target");
}

TEST_F(Sample, shows_its_holes) {
    const int fd = ::open(path().c_str(), O_RDWR);
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 77 * kBlock, kBlock) != 0) {
        ::close(fd);
        GTEST_SKIP() << "this file system has no holes";
    }
    ::close(fd);
    EXPECT_EQ(changed(false), 77);
}

TEST_F(Sample, that_was_cut_and_got_its_size_back_has_a_hole) {
    fs::resize_file(path(), 10 * kBlock);
    EXPECT_EQ(error_text([&] { (void)changed(false); }).substr(0, 4), "io: ");
    fs::resize_file(path(), kBlock * kBlocks);
    EXPECT_EQ(changed(false), 10);
}

TEST_F(Sample, may_have_zeros_that_a_file_system_calls_a_hole) {
    std::vector<std::byte> zeros(kBlock);
    file_.stretches[50].digest = digest_of(zeros);
    const int fd = ::open(path().c_str(), O_RDWR);
    (void)::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 50 * kBlock, kBlock);
    ::close(fd);
    EXPECT_FALSE(first_changed(directory_, "f", file_.identity, file_.stretches, {}));
}

TEST_F(Sample, is_no_other_file) {
    fs::copy_file(path(), place_.path() / "copy");
    fs::rename(place_.path() / "copy", path());
    EXPECT_NE(error_text([&] { (void)changed(false); }).find("is another file than the one"),
              std::string::npos);
    file_.identity.inode = 0;  // other hosts' numbers
    EXPECT_EQ(changed(false), -1);
    fs::remove(path());
    EXPECT_NE(error_text([&] { (void)changed(false); }).find("f is gone: another program"),
              std::string::npos);
}

}  // namespace
}  // namespace shardweld::io
