// Pre-zip torch.save files.
#include <string>

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "io/input_file.hpp"
#include "support/error_text.hpp"
#include "support/memory_file.hpp"

#include "torch_builder.hpp"

namespace shardweld::formats {
namespace {

using namespace std::string_literals;
using test::call;
using test::counts;
using test::error_text;
using test::global;
using test::integer;
using test::little;
using test::tuple;
using test::unicode;

const std::string kMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
const std::string kProtocol = "\x80\x02M\xe9\x03.";

std::string system_info(const std::string& little_endian) {
    return "\x80\x02}" + unicode("little_endian") + little_endian + "s.";
}

const std::string kHeader = kMagic + kProtocol + system_info("\x88");

std::string stream_storage(const std::string& type, const std::string& key, std::int64_t count,
                           const std::string& view) {
    return tuple({unicode("storage"), global(type), unicode(key), unicode("cpu"), integer(count),
                  view}) +
           "Q";
}

std::string stream_tensor(const std::string& storage_id, std::int64_t offset, std::int64_t size) {
    return call("torch._utils _rebuild_tensor_v2",
                {storage_id, integer(offset), counts({size}), counts({1}), "\x89", "N"});
}

std::string keys(const std::string& list) {
    return "\x80\x02](" + list + "e.";
}

// Tensors of the root tuple as "dtype shape +offset: storage's bytes; ".
std::string tensors_text(const std::string& file_text) {
    const test::MemoryFile memory(file_text);
    const io::InputFile file = io::InputFile::open(memory.path());
    const TorchFile torch_file = TorchFile::read(file);
    std::string text;
    for (const PickleValue* const value : torch_file.root().elements()) {
        const StoredTensor stored = *torch_file.tensor(*value);
        std::string data(stored.storage_bytes, '?');
        file.read_at(stored.storage_offset, std::as_writable_bytes(std::span(data)));
        text += std::string(torch_name(stored.dtype)) + " " + shape_text(stored.shape) + " +" +
                std::to_string(stored.element_offset) + ": " + data + "; ";
    }
    return text;
}

std::string stream_error(const std::string& file_text) {
    return test::with_short_names(error_text([&] { tensors_text(file_text); }));
}

const std::string kObject =
    "\x80\x02" +
    tuple({stream_tensor(stream_storage("torch FloatStorage", "94488", 2, "N"), 1, 1),
           stream_tensor(stream_storage("torch ByteStorage", "7", 5, "N"), 0, 5),
           stream_tensor(stream_storage("torch FloatStorage", "94488", 2, "N"), 0, 2)}) +
    ".";
const std::string kKeys = keys(unicode("7") + unicode("94488"));
const std::string kData = little(5, 8) + "abcde" + little(2, 8) + "01234567";

TEST(TorchStream, reads_storages_behind_the_pickles) {
    EXPECT_EQ(tensors_text(kHeader + kObject + kKeys + kData),
              "float32 [1] +1: 01234567; uint8 [5] +0: abcde; float32 [2] +0: 01234567; ");
}

TEST(TorchStream, reads_pickles_larger_than_a_first_guess) {
    std::string object = "\x80\x02(";
    for (int i = 0; i < 30000; ++i) {
        object += "U\3abc0";
    }
    object += stream_tensor(stream_storage("torch ByteStorage", "7", 5, "N"), 0, 5) + "t.";
    EXPECT_EQ(tensors_text(kHeader + object + keys(unicode("7")) + little(5, 8) + "abcde"),
              "uint8 [5] +0: abcde; ");
}

TEST(TorchStream, reads_views_of_storages) {
    const auto file = [](const std::string& view) {
        return kHeader + "\x80\x02" +
               tuple({stream_tensor(stream_storage("torch HalfStorage", "r", 4, view), 0, 1)}) +
               "." + keys(unicode("r")) + little(4, 8) + "01234567";
    };
    EXPECT_EQ(tensors_text(file(tuple({unicode("v"), integer(1), integer(2)}))),
              "float16 [1] +0: 2345; ");
    EXPECT_EQ(stream_error(file(tuple({unicode("v"), integer(3), integer(2)}))),
              "corrupt: torch file: a view of storage 'r' runs past its end");
    EXPECT_EQ(stream_error(file(tuple({unicode("v"), integer(-1), integer(2)}))),
              "corrupt: the offset of a storage's view is negative: -1 [file F]");
    EXPECT_EQ(
        stream_error(file(unicode("v"))),
        "corrupt: torch file: a storage's view is a text, expected (key, offset, size) [file F]");
}

TEST(TorchStream, refuses_cut_files) {
    const std::string whole = kHeader + kObject + kKeys + kData;
    EXPECT_EQ(stream_error(whole.substr(0, whole.size() - 1)),
              "corrupt: torch file (pre-zip): the file is truncated: storage '94488' needs 8 "
              "bytes, 7 are left [file F]");
    for (std::size_t size = 14; size < whole.size(); ++size) {
        ASSERT_TRUE(stream_error(whole.substr(0, size)).starts_with("corrupt: ")) << size;
    }
}

TEST(TorchStream, refuses_what_does_not_agree) {
    EXPECT_EQ(
        stream_error(kMagic + kProtocol + system_info("\x89") + kObject + kKeys + kData),
        "unsupported: torch file (pre-zip): it is big-endian [file F]; save it on a little-endian "
        "host");
    EXPECT_EQ(stream_error(kMagic + "\x80\x02M\xe8\x03."s + system_info("\x88") + kObject + kKeys),
              "corrupt: torch file (pre-zip): its protocol is not 1001 [file F]");
    EXPECT_EQ(
        stream_error(kHeader + kObject + kKeys + little(6, 8) + "abcdef"),
        "corrupt: torch file (pre-zip): storage '7' has 6 elements, the pickle says 5 [file F]");
    EXPECT_EQ(stream_error(kHeader + kObject + keys(unicode("8")) + kData),
              "corrupt: torch file (pre-zip): storage '8' is not named in the pickle [file F]");
    EXPECT_EQ(stream_error(kHeader + kObject + keys(unicode("7") + unicode("7")) + little(5, 8) +
                           "abcde" + little(5, 8) + "abcde"),
              "corrupt: torch file (pre-zip): two storages with one key: '7' [file F]");
    EXPECT_EQ(stream_error(kHeader + kObject + keys(unicode("7")) + little(5, 8) + "abcde"),
              "corrupt: torch file: record data/94488 is missing");
    EXPECT_EQ(stream_error(kHeader + kObject + "\x80\x02K\1."s),
              "corrupt: torch file (pre-zip): the list of its storages is an integer [file F]");
}

}  // namespace
}  // namespace shardweld::formats
