#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "io/errno.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/whole_file.hpp"
#include "support/error_text.hpp"

namespace shardweld::io {
namespace {

using test::error_text;

class FileTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "shardweld-io-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { fs::remove_all(directory_); }

    [[nodiscard]] fs::path at(const std::string& name) const { return directory_ / name; }

    fs::path directory_;
};

std::string text_at(const InputFile& file, Bytes offset, std::size_t size) {
    std::string text(size, '?');
    file.read_at(offset, std::as_writable_bytes(std::span(text)));
    return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

TEST_F(FileTest, reads_at_offsets) {
    write_text(at("a"), "0123456789", false);
    const InputFile file = InputFile::open(at("a"));
    EXPECT_EQ(file.size(), 10U);
    EXPECT_EQ(file.path(), at("a"));
    EXPECT_EQ(text_at(file, 0, 10), "0123456789");
    EXPECT_EQ(text_at(file, 7, 3), "789");
    EXPECT_EQ(text_at(file, 10, 0), "");
}

TEST_F(FileTest, a_read_past_the_end_is_corrupt) {
    write_text(at("a"), "0123456789", false);
    const InputFile file = InputFile::open(at("a"));
    EXPECT_EQ(error_text([&] { text_at(file, 8, 5); }),
              "corrupt: " + at("a").string() +
                  " ends too early: expected 5 bytes at offset 8, found 2 (file size 10)");
    EXPECT_EQ(error_text([&] { text_at(file, ~Bytes{0} - 1, 5); }),
              "corrupt: " + at("a").string() +
                  " ends too early: expected 5 bytes at offset 18446744073709551614, found 0 "
                  "(file size 10)");
}

TEST_F(FileTest, tells_another_file_of_the_same_size_and_time) {
    write_text(at("a"), "0123456789", false);
    write_text(at("b"), "9876543210", false);
    fs::last_write_time(at("b"), fs::last_write_time(at("a")));
    const FileStamp first = InputFile::open(at("a")).stamp();
    EXPECT_NE(first.inode, 0U) << "the tests' directory is on a file system that keeps numbers";
    EXPECT_NE(first.changed_ns, 0);
    fs::rename(at("b"), at("a"));
    const InputFile other = InputFile::open(at("a"));
    EXPECT_EQ(error_text([&] { other.require(first); }),
              "io: " + at("a").string() +
                  " was changed while it was being read (another file has its name); wait for its "
                  "writer to end, and start again");
    EXPECT_FALSE(keeps_numbers(0x65735546)) << "FUSE numbers files anew";
    EXPECT_TRUE(keeps_numbers(0xef53));
}

TEST_F(FileTest, tells_a_file_that_was_changed_since_it_was_opened) {
    write_text(at("a"), "0123456789", false);
    const InputFile file = InputFile::open(at("a"));
    file.require_unchanged();
    fs::last_write_time(at("a"), fs::last_write_time(at("a")) + std::chrono::nanoseconds(1));
    EXPECT_EQ(error_text([&] { file.require_unchanged(); }),
              "io: " + at("a").string() +
                  " was changed while it was being read (its bytes were rewritten); wait for "
                  "its writer to end, and start again");
    fs::resize_file(at("a"), 11);
    EXPECT_EQ(error_text([&] { file.require_unchanged(); }),
              "io: " + at("a").string() +
                  " was changed while it was being read (11 bytes, 10 at the start); wait for its "
                  "writer to end, and start again");
}

TEST_F(FileTest, a_file_that_became_shorter_is_not_corrupt) {
    write_text(at("a"), "0123456789", false);
    const InputFile file = InputFile::open(at("a"));
    fs::resize_file(at("a"), 5);
    EXPECT_EQ(error_text([&] { text_at(file, 4, 4); }).substr(0, 3), "io:");
}

TEST_F(FileTest, an_absent_file_is_not_found) {
    EXPECT_EQ(
        error_text([&] { InputFile::open(at("none")); }),
        "not_found: cannot open " + at("none").string() + ": No such file or directory (errno 2)");
}

TEST_F(FileTest, refuses_what_is_not_a_regular_file) {
    EXPECT_EQ(error_text([&] { InputFile::open(directory_); }),
              "unsupported: " + directory_.string() + " is a directory; expected a regular file");
    EXPECT_EQ(error_text([] { InputFile::open("/dev/zero"); }),
              "unsupported: /dev/zero is a device; expected a regular file");
    ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
    // Must return at once: a plain open would wait for a writer.
    EXPECT_EQ(error_text([&] { InputFile::open(at("fifo")); }),
              "unsupported: " + at("fifo").string() + " is a FIFO; expected a regular file");
}

TEST_F(FileTest, follows_links_to_regular_files) {
    write_text(at("a"), "text", false);
    fs::create_symlink("a", at("link"));
    EXPECT_EQ(read_text(at("link")), "text");
}

TEST_F(FileTest, moves_keep_one_owner) {
    write_text(at("a"), "text", false);
    InputFile first = InputFile::open(at("a"));
    const int fd = first.fd();
    InputFile second = std::move(first);
    EXPECT_EQ(second.fd(), fd);
    EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): the point of the test
    InputFile third;
    third = std::move(second);
    EXPECT_EQ(text_at(third, 0, 4), "text");
}

TEST_F(FileTest, creates_a_file_once) {
    OutputFile file = OutputFile::create(at("out"));
    file.resize(8);
    file.write_at(2, bytes_of("abc"));
    file.sync();
    file.close();
    EXPECT_FALSE(file.is_open());
    EXPECT_EQ(read_text(at("out")), std::string("\0\0abc\0\0\0", 8));
    EXPECT_EQ(error_text([&] { OutputFile::create(at("out")); }),
              "target: cannot create " + at("out").string() +
                  ": it exists; remove it, or take --overwrite");
}

TEST_F(FileTest, created_files_obey_the_umask) {
    const mode_t before = ::umask(027);
    OutputFile::create(at("out")).close();
    ::umask(before);
    EXPECT_EQ(fs::status(at("out")).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(FileTest, opens_an_existing_file_without_cutting_it) {
    write_text(at("out"), "0123456789", false);
    OutputFile file = OutputFile::open_existing(at("out"));
    file.write_at(3, bytes_of("xyz"));
    file.close();
    EXPECT_EQ(read_text(at("out")), "012xyz6789");
    EXPECT_EQ(error_text([&] { OutputFile::open_existing(at("none")); }),
              "not_found: cannot open for writing " + at("none").string() +
                  ": No such file or directory (errno 2)");
}

TEST_F(FileTest, a_full_disk_is_space) {
    const OutputFile file = OutputFile::open_existing("/dev/full");
    EXPECT_EQ(error_text([&] { file.write_at(0, bytes_of("abc")); }),
              "space: cannot write 3 bytes at offset 0 of /dev/full: No space left on device "
              "(errno 28)");
}

TEST_F(FileTest, an_offset_beyond_what_files_have_is_space) {
    const OutputFile file = OutputFile::create(at("out"));
    EXPECT_EQ(error_text([&] { file.write_at(Bytes{1} << 63U, bytes_of("abc")); }),
              "space: cannot reach offset 9223372036854775811 of " + at("out").string() +
                  ": File too large (errno 27)");
}

TEST_F(FileTest, whole_files_have_a_limit) {
    write_text(at("a"), "0123456789", true);
    EXPECT_EQ(read_bytes(at("a"), 10).size(), 10U);
    EXPECT_EQ(
        error_text([&] { read_bytes(at("a"), 9); }),
        "corrupt: " + at("a").string() + " has 10 bytes; at most 9 are expected of such a file");
    EXPECT_EQ(
        error_text([&] { read_text(at("a"), 9); }),
        "corrupt: " + at("a").string() + " has 10 bytes; at most 9 are expected of such a file");
}

TEST_F(FileTest, write_text_replaces_the_content) {
    write_text(at("a"), "0123456789", false);
    write_text(at("a"), "abc", true);
    EXPECT_EQ(read_text(at("a")), "abc");
}

TEST_F(FileTest, writers_take_turns) {
    OutputFile file = OutputFile::create("/dev/shm" / directory_.filename());
    file.take_turns();
    const OutputFile other = OutputFile::open_existing(file.path());
    ASSERT_EQ(::unlink(file.path().c_str()), 0);
    ASSERT_EQ(::flock(other.fd(), LOCK_EX), 0);
    std::atomic<bool> is_written = false;
    std::thread writer([&] {
        file.write_at(0, ByteBuffer(3));
        is_written = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(is_written);
    EXPECT_EQ(::flock(other.fd(), LOCK_UN), 0);
    writer.join();
    EXPECT_EQ(::flock(other.fd(), LOCK_EX | LOCK_NB), 0) << "the turn is over";
}

TEST_F(FileTest, syncs_directories) {
    EXPECT_EQ(error_text([&] { sync_directory(directory_); }), "no error");
    EXPECT_EQ(error_text([&] { sync_directory(at("none")); }),
              "not_found: cannot open directory " + at("none").string() +
                  ": No such file or directory (errno 2)");
}

TEST(Errno, maps_reasons_to_codes) {
    const auto text = [](int error) {
        return error_text([error] { throw_errno(error, "do it to", "/some/path"); });
    };
    EXPECT_EQ(text(ENOSPC),
              "space: cannot do it to /some/path: No space left on device (errno 28)");
    EXPECT_EQ(text(EDQUOT), "space: cannot do it to /some/path: Disk quota exceeded (errno 122)");
    EXPECT_EQ(text(EFBIG), "space: cannot do it to /some/path: File too large (errno 27)");
    EXPECT_EQ(text(ENOTDIR), "not_found: cannot do it to /some/path: Not a directory (errno 20)");
    EXPECT_EQ(text(EIO), "io: cannot do it to /some/path: Input/output error (errno 5)");
}

TEST(Errno, says_what_to_do_where_the_reason_does_not) {
    const auto text = [](int error) {
        return error_text([error] { throw_errno(error, "open", "/some/path"); });
    };
    EXPECT_EQ(text(EACCES),
              "io: cannot open /some/path: Permission denied (errno 13); have its owner permit "
              "it, or run as a user who may");
    EXPECT_EQ(text(EMFILE),
              "io: cannot open /some/path: Too many open files (errno 24); allow more open files "
              "(`ulimit -n`), or keep fewer open (--max_open)");
    EXPECT_EQ(text(ENAMETOOLONG),
              "io: cannot open /some/path: File name too long (errno 36); give a shorter name: "
              "hidden files beside a target have names some 20 bytes longer");
}

}  // namespace
}  // namespace shardweld::io
