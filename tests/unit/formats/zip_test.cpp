#include "formats/containers/zip.hpp"

#include <string>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "support/error_text.hpp"
#include "support/memory_file.hpp"

#include "zip_builder.hpp"

namespace shardweld::formats {
namespace {

using namespace std::string_literals;
using test::build_zip;
using test::error_text;
using test::little;
using test::ZipSpec;

// Every entry as "name=content".
std::string listed(const std::string& file_text, Bytes begin = 0, Bytes cut = 0) {
    const test::MemoryFile memory(file_text);
    const io::InputFile file = io::InputFile::open(memory.path());
    const ZipArchive archive = ZipArchive::read(file, begin, file.size() - begin - cut);
    std::string text = archive.prefix + "|";
    for (const auto& [name, entry] : archive.entries) {
        std::string data(entry.size, '?');
        file.read_at(entry.offset, std::as_writable_bytes(std::span(data)));
        EXPECT_EQ(entry.crc32, test::crc_of(data)) << name;
        text += std::string(name) + "=" + data + ";";
    }
    return text;
}

std::string zip_error(const std::string& file_text) {
    return error_text([&] { listed(file_text); });
}

const std::vector<ZipSpec> kTwoEntries = {{"a/data.pkl", "pickle"},
                                          {"a/data/0", "0123", 0, 0x0808, false, 41}};
const std::string kTwoListed = "a/|a/data.pkl=pickle;a/data/0=0123;";

std::string replaced(std::string text, std::size_t at, const std::string& with) {
    return text.replace(at, with.size(), with);
}

TEST(Zip, reads_stored_entries) {
    EXPECT_EQ(listed(build_zip(kTwoEntries)), kTwoListed);
    EXPECT_EQ(listed(build_zip({})), "|");
}

TEST(Zip, reads_an_archive_inside_a_file) {
    const std::string archive = build_zip(kTwoEntries);
    EXPECT_EQ(listed("xyz" + archive + "tail", 3, 4), kTwoListed);
    // Large enough that head, tail and middle are separate reads.
    const std::vector<ZipSpec> large = {{"a/data.pkl", "p"},
                                        {"a/data/0", std::string(50000, 'x')},
                                        {"a/data/1", std::string(9000, 'y')},
                                        {"a/data/2", "z"},
                                        {"a/version", "3"}};
    EXPECT_EQ(listed("abcde" + build_zip(large), 5),
              "a/|a/data.pkl=p;a/data/0=" + std::string(50000, 'x') +
                  ";a/data/1=" + std::string(9000, 'y') + ";a/data/2=z;a/version=3;");
}

TEST(Zip, reads_comments_up_to_the_longest) {
    EXPECT_EQ(listed(build_zip(kTwoEntries, "a comment")), kTwoListed);
    EXPECT_EQ(listed(build_zip(kTwoEntries, std::string(65535, 'c'))), kTwoListed);
    // A comment that looks like an end record does not end at the archive's end.
    EXPECT_EQ(listed(build_zip(kTwoEntries, test::end_record(0, 0, 0, "") + "..")), kTwoListed);
}

TEST(Zip, reads_zip64) {
    std::vector<ZipSpec> specs = kTwoEntries;
    specs[1].is_zip64 = true;
    EXPECT_EQ(listed(build_zip(specs)), kTwoListed);
    EXPECT_EQ(listed(build_zip(specs, "", true)), kTwoListed);
    EXPECT_EQ(listed("??" + build_zip(specs, "", true), 2), kTwoListed);
}

TEST(Zip, reads_entries_without_descriptors) {
    std::vector<ZipSpec> specs = kTwoEntries;
    specs[0].flags = 0;
    EXPECT_EQ(listed(build_zip(specs)), kTwoListed);
}

TEST(Zip, finds_the_shallowest_pickle) {
    EXPECT_EQ(listed(build_zip({{"a/b/data.pkl", "1"}, {"z/data.pkl", "2"}})),
              "z/|a/b/data.pkl=1;z/data.pkl=2;");
    EXPECT_EQ(listed(build_zip({{"data.pkl", "1"}})), "|data.pkl=1;");
    EXPECT_EQ(zip_error(build_zip({{"a/data.pkl", "1"}, {"b/data.pkl", "2"}})),
              "corrupt: zip: two archives in one file: more than one entry is a data.pkl");
}

TEST(Zip, keeps_hostile_names_inert) {
    EXPECT_EQ(listed(build_zip({{"../../evil", "x"}, {"/etc/passwd", "y"}})),
              "|../../evil=x;/etc/passwd=y;");
}

TEST(Zip, refuses_what_is_not_stored) {
    std::vector<ZipSpec> specs = kTwoEntries;
    specs[1].method = 8;
    EXPECT_EQ(
        zip_error(build_zip(specs)),
        "unsupported: zip: entry 'a/data/0' is compressed (method 8); torch.save writes stored "
        "records only; save the state dict again with it (this may be a TorchScript or "
        "repacked archive)");
    specs[1].method = 0;
    specs[1].flags |= 1U;
    EXPECT_EQ(zip_error(build_zip(specs)),
              "unsupported: zip: entry 'a/data/0' is encrypted; save the state dict again with "
              "torch.save");
}

TEST(Zip, refuses_two_entries_of_one_name) {
    EXPECT_EQ(zip_error(build_zip({{"a/data/0", "x"}, {"a/data/0", "y"}})),
              "corrupt: zip: two entries with one name: 'a/data/0'");
}

TEST(Zip, refuses_cut_files) {
    const std::string archive = build_zip(kTwoEntries);
    const std::string no_end =
        "corrupt: zip: the file is truncated: no end-of-central-directory record at its end; it "
        "was cut short or is still being written";
    EXPECT_EQ(zip_error(archive.substr(0, archive.size() - 10)), no_end);
    EXPECT_EQ(zip_error(archive.substr(0, archive.size() / 2)), no_end);
    EXPECT_EQ(zip_error("PK\3\4"),
              "corrupt: zip: the file is truncated: 4 bytes cannot hold an archive");
    EXPECT_EQ(zip_error(archive + "x"), no_end);
}

TEST(Zip, refuses_a_directory_outside_the_archive) {
    const std::string archive = build_zip(kTwoEntries);
    const std::size_t end = archive.size() - 22;
    EXPECT_EQ(zip_error(replaced(archive, end + 16, little(5000, 4))),
              "corrupt: zip: the central directory (110 bytes at offset 5000) lies outside the "
              "archive of 297 bytes");
    EXPECT_EQ(zip_error(replaced(archive, end + 12, little(0xfffffff0, 4))),
              "corrupt: zip: the central directory (4294967280 bytes at offset 165) lies outside "
              "the archive of 297 bytes");
    EXPECT_EQ(zip_error(replaced(archive, end + 10, little(60000, 2))),
              "corrupt: zip: the central directory claims 60000 entries in 110 bytes");
    EXPECT_EQ(zip_error(replaced(archive, end + 10, little(1, 2))),
              "corrupt: zip: the central directory has 54 bytes behind its last entry");
    EXPECT_EQ(zip_error(replaced(archive, 165, "XX")),
              "corrupt: zip: the central directory has a wrong signature at byte 0");
}

TEST(Zip, refuses_a_zip64_record_that_lies) {
    const std::string archive = build_zip(kTwoEntries, "", true);
    const std::size_t locator = archive.size() - 42;
    EXPECT_EQ(zip_error(replaced(archive, locator + 8, little(~std::uint64_t{0} - 8, 8))),
              "corrupt: the zip64 end record lies outside the archive: 56 bytes at offset "
              "18446744073709551607 of 373");
    EXPECT_EQ(zip_error(replaced(archive, locator + 8, little(3, 8))),
              "corrupt: zip: no zip64 end record at offset 3");
    const std::size_t record = locator - 56;
    EXPECT_EQ(zip_error(replaced(archive, record + 32, little(~std::uint64_t{0}, 8))),
              "corrupt: zip: the central directory claims 18446744073709551615 entries in 110 "
              "bytes");
    EXPECT_EQ(zip_error(replaced(archive, record + 40, little(~std::uint64_t{0}, 8))),
              "corrupt: zip: the central directory (18446744073709551615 bytes at offset 165) "
              "lies outside the archive of 373 bytes");
}

TEST(Zip, refuses_entries_that_lie) {
    const std::string archive = build_zip(kTwoEntries);
    const std::size_t directory = 165;
    EXPECT_EQ(zip_error(replaced(archive, directory + 42, little(100000, 4))),
              "corrupt: the local header of 'a/data.pkl' lies outside the archive: 40 bytes at "
              "offset 100000 of 297");
    EXPECT_EQ(zip_error(replaced(archive, directory + 42, little(4, 4))),
              "corrupt: zip: the local header of 'a/data.pkl' is not at offset 4");
    EXPECT_EQ(zip_error(replaced(archive, directory + 20, little(100, 4) + little(100, 4))),
              "corrupt: zip: entry 'a/data/0' overlaps the one before it");
    EXPECT_EQ(zip_error(replaced(archive, directory + 20, little(7, 4))),
              "corrupt: zip: entry 'a/data.pkl' has two sizes: 7 stored, 6 plain");
    std::vector<ZipSpec> specs = kTwoEntries;
    specs[0].local_name = "a/data.pkX";
    EXPECT_EQ(
        zip_error(build_zip(specs)),
        "corrupt: zip: the local header of 'a/data.pkl' disagrees with the central directory");
    specs = kTwoEntries;
    specs[0].flags = 0;
    EXPECT_EQ(zip_error(replaced(build_zip(specs), 18, little(5, 4))),
              "corrupt: zip: the local header of 'a/data.pkl' says 5 bytes, the central directory "
              "6");
}

TEST(Zip, refuses_a_range_outside_the_file) {
    const test::MemoryFile memory(build_zip(kTwoEntries));
    const io::InputFile file = io::InputFile::open(memory.path());
    EXPECT_EQ(error_text([&] { ZipArchive::read(file, 290, 8); }),
              "corrupt: an item of 8 bytes at offset 290 lies outside its file " +
                  memory.path().string() + " of 297 bytes");
    EXPECT_EQ(error_text([&] { ZipArchive::read(file, 1, ~Bytes{0}); }),
              "corrupt: an item of 18446744073709551615 bytes at offset 1 lies outside its file " +
                  memory.path().string() + " of 297 bytes");
}

}  // namespace
}  // namespace shardweld::formats
