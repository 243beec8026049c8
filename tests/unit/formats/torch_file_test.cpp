#include "formats/containers/torch_file.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "core/text.hpp"
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
using test::storage;
using test::tensor_v2;
using test::torch_file;
using test::tuple;
using test::unicode;

// The root tensor of a file as "dtype shape strides +offset: storage's bytes".
std::string tensor_text(const std::string& file_text, Bytes begin = 0) {
    const test::MemoryFile memory(file_text);
    const io::InputFile file = io::InputFile::open(memory.path());
    const TorchFile torch_file = TorchFile::read(file, begin);
    const auto tensor = torch_file.tensor(torch_file.root());
    if (!tensor) {
        return "no tensor";
    }
    std::string data(tensor->storage_bytes, '?');
    file.read_at(tensor->storage_offset, std::as_writable_bytes(std::span(data)));
    return std::string(torch_name(tensor->dtype)) + " " + shape_text(tensor->shape) + " " +
           shape_text(tensor->strides) + " +" + std::to_string(tensor->element_offset) + ": " +
           data;
}

std::string file_error(const std::string& file_text) {
    return test::with_short_names(error_text([&] { tensor_text(file_text); }));
}

const std::string kFloat = "torch FloatStorage";
const std::map<std::string, std::string> kRecords = {{"0", "0123456789abcdefghijklmn"}};
const std::string kStorage = storage(kFloat, "0", 6);

TEST(TorchFile, reads_tensors_of_every_storage_class) {
    const std::map<std::string, std::string> classes = {{"FloatStorage", "float32"},
                                                        {"DoubleStorage", "float64"},
                                                        {"HalfStorage", "float16"},
                                                        {"BFloat16Storage", "bfloat16"},
                                                        {"LongStorage", "int64"},
                                                        {"IntStorage", "int32"},
                                                        {"ShortStorage", "int16"},
                                                        {"CharStorage", "int8"},
                                                        {"ByteStorage", "uint8"},
                                                        {"BoolStorage", "bool"},
                                                        {"ComplexFloatStorage", "complex64"}};
    for (const auto& [name, dtype] : classes) {
        for (const std::string module : {"torch ", "torch.storage ", "torch.cuda "}) {
            EXPECT_EQ(tensor_text(torch_file(tensor_v2(storage(module + name, "k", 1), 0, {1}, {1}),
                                             {{"k", "01234567"}})),
                      dtype + " [1] [1] +0: 01234567");
        }
    }
}

TEST(TorchFile, reads_views) {
    EXPECT_EQ(tensor_text(torch_file(tensor_v2(kStorage, 1, {2, 2}, {3, 1}), kRecords)),
              "float32 [2, 2] [3, 1] +1: 0123456789abcdefghijklmn");
    EXPECT_EQ(tensor_text(torch_file(tensor_v2(kStorage, 5, {}, {}), kRecords)),
              "float32 [] [] +5: 0123456789abcdefghijklmn");
    EXPECT_EQ(tensor_text(torch_file(tensor_v2(kStorage, 0, {1000, 6}, {0, 1}), kRecords)),
              "float32 [1000, 6] [0, 1] +0: 0123456789abcdefghijklmn");
    EXPECT_EQ(tensor_text(torch_file(tensor_v2(kStorage, 6, {0, 6}, {6, 1}), kRecords)),
              "float32 [0, 6] [6, 1] +6: 0123456789abcdefghijklmn");
}

TEST(TorchFile, reads_a_blob_inside_a_file) {
    EXPECT_EQ(tensor_text("12345" + torch_file(tensor_v2(kStorage, 0, {6}, {1}), kRecords), 5),
              "float32 [6] [1] +0: 0123456789abcdefghijklmn");
}

TEST(TorchFile, reads_every_spelling_of_a_tensor) {
    const std::string expected = "float32 [6] [1] +0: 0123456789abcdefghijklmn";
    const std::string plain = tensor_v2(kStorage, 0, {6}, {1});
    const std::string arguments =
        tuple({kStorage, integer(0), counts({6}), counts({1}), "\x89", "N"});
    EXPECT_EQ(tensor_text(torch_file(call("torch._utils _rebuild_tensor",
                                          {kStorage, integer(0), counts({6}), counts({1})}),
                                     kRecords)),
              expected);
    EXPECT_EQ(tensor_text(torch_file(call("torch._utils _rebuild_parameter", {plain, "\x88", "N"}),
                                     kRecords)),
              expected);
    EXPECT_EQ(tensor_text(torch_file(
                  call("torch._utils _rebuild_parameter_with_state", {plain, "\x88", "N", "}"}),
                  kRecords)),
              expected);
    EXPECT_EQ(tensor_text(torch_file(call("torch._tensor _rebuild_from_type_v2",
                                          {global("torch._utils _rebuild_tensor_v2"),
                                           global("torch Tensor"), arguments, "}"}),
                                     kRecords)),
              expected);
    const std::string size = call("torch Size", {counts({6})});
    EXPECT_EQ(tensor_text(torch_file(call("torch._utils _rebuild_tensor_v2",
                                          {kStorage, integer(0), size, counts({1}), "\x89", "N"}),
                                     kRecords)),
              expected);
}

TEST(TorchFile, reads_untyped_storages) {
    const auto file = [](const std::string& dtype) {
        return torch_file(call("torch._utils _rebuild_tensor_v3",
                               {storage("torch.storage UntypedStorage", "0", 24), integer(0),
                                counts({6}), counts({1}), "\x89", "N", global("torch " + dtype)}),
                          kRecords);
    };
    EXPECT_EQ(tensor_text(file("float8_e4m3fn")),
              "float8_e4m3fn [6] [1] +0: 0123456789abcdefghijklmn");
    EXPECT_EQ(tensor_text(file("float8_e5m2fnuz")),
              "float8_e5m2fnuz [6] [1] +0: 0123456789abcdefghijklmn");
    EXPECT_EQ(tensor_text(file("uint32")), "uint32 [6] [1] +0: 0123456789abcdefghijklmn");
    EXPECT_EQ(file_error(file("uint64")),
              "corrupt: torch file: a tensor of shape [6], strides [1] at element 0 needs 48 "
              "bytes; storage '0' has 24");
    EXPECT_EQ(file_error(file("qint8")), "unsupported: dtype torch.qint8 is not supported");
}

TEST(TorchFile, other_values_are_no_tensors) {
    EXPECT_EQ(tensor_text(torch_file("}", {})), "no tensor");
    EXPECT_EQ(tensor_text(torch_file(call("argparse Namespace", {}), {})), "no tensor");
    EXPECT_EQ(tensor_text(torch_file(call("torch._tensor _rebuild_from_type_v2",
                                          {global("torch._utils _rebuild_wrapper_subclass"),
                                           global("torch.distributed.tensor DTensor"), ")", "}"}),
                                     {})),
              "no tensor");
}

TEST(TorchFile, refuses_lazy_conjugates) {
    const auto file = [](const std::string& bit, const std::string& value) {
        const std::string metadata = "}(" + unicode(bit) + value + "u";
        return torch_file(
            call("torch._utils _rebuild_tensor_v2",
                 {kStorage, integer(0), counts({6}), counts({1}), "\x89", "N", metadata}),
            kRecords);
    };
    EXPECT_EQ(tensor_text(file("conj", "\x89")),
              tensor_text(torch_file(tensor_v2(kStorage, 0, {6}, {1}), kRecords)));
    for (const std::string bit : {"conj", "neg"}) {
        EXPECT_EQ(file_error(file(bit, "\x88")),
                  "unsupported: torch file: a tensor is stored with its bit '" + bit +
                      "' set, so that its bytes are not its values; resolve it before saving "
                      "(resolve_conj, resolve_neg)");
    }
}

TEST(TorchFile, refuses_tensors_without_plain_bytes) {
    EXPECT_EQ(file_error(torch_file(call("torch._utils _rebuild_qtensor", {}), {})),
              "unsupported: torch file: tensors made by 'torch._utils _rebuild_qtensor' "
              "(quantised, sparse, nested or without data) are not supported");
    EXPECT_EQ(file_error(torch_file(tensor_v2(storage("torch QInt8Storage", "0", 1), 0, {1}, {1}),
                                    kRecords)),
              "unsupported: torch file: storages of class 'torch QInt8Storage' are not supported");
    EXPECT_EQ(file_error(torch_file(tensor_v2(storage("evil FloatStorage", "0", 1), 0, {1}, {1}),
                                    kRecords)),
              "unsupported: torch file: storages of class 'evil FloatStorage' are not supported");
    EXPECT_EQ(
        file_error(torch_file(tensor_v2(storage(kFloat, "0", 6, "meta"), 0, {1}, {1}), kRecords)),
        "unsupported: torch file: storage '0' lies on the meta device: it has no data");
}

TEST(TorchFile, refuses_numbers_that_do_not_fit) {
    const auto sized = [](std::int64_t offset, const std::vector<std::int64_t>& size,
                          const std::vector<std::int64_t>& stride) {
        return file_error(torch_file(tensor_v2(kStorage, offset, size, stride), kRecords));
    };
    EXPECT_EQ(sized(0, {-1, 5}, {1, 1}), "corrupt: a tensor's size is negative: -1");
    EXPECT_EQ(sized(0, {1}, {-1}), "corrupt: a tensor's stride is negative: -1");
    EXPECT_EQ(sized(-4, {1}, {1}), "corrupt: a tensor's storage offset is negative: -4");
    EXPECT_EQ(sized(0, {1, 1}, {1}), "corrupt: torch file: a tensor has 2 sizes and 1 strides");
    EXPECT_EQ(sized(1, {6}, {1}),
              "corrupt: torch file: a tensor of shape [6], strides [1] at element 1 needs 28 "
              "bytes; storage '0' has 24");
    EXPECT_EQ(sized(0, {2, 3}, {4, 1}),
              "corrupt: torch file: a tensor of shape [2, 3], strides [4, 1] at element 0 needs 28 "
              "bytes; storage '0' has 24");
    constexpr std::int64_t kHuge = std::int64_t{1} << 40;
    EXPECT_TRUE(sized(0, {kHuge, kHuge}, {0, 0}).starts_with("corrupt: "));
    EXPECT_TRUE(sized(0, {2}, {kHuge << 22}).starts_with("corrupt: "));
    EXPECT_TRUE(sized(std::numeric_limits<std::int64_t>::max(), {2}, {1}).starts_with("corrupt: "));
    EXPECT_EQ(file_error(torch_file(tensor_v2(storage(kFloat, "0", 7), 0, {1}, {1}), kRecords)),
              "corrupt: torch file: storage '0' should have 7 elements of 4 bytes; its record has "
              "24 bytes");
}

TEST(TorchFile, refuses_storages_that_are_not_there) {
    const auto keyed = [](const std::string& key) {
        return file_error(torch_file(tensor_v2(storage(kFloat, key, 6), 0, {1}, {1}), kRecords));
    };
    EXPECT_EQ(keyed("99999"), "corrupt: torch file: record data/99999 is missing");
    for (const std::string key : {"../../../../etc/passwd", "..", "", "a/b", "a\\b", "a b"}) {
        EXPECT_EQ(keyed(key),
                  "corrupt: torch file: storage key '" + key + "' is not a plain record name");
    }
    EXPECT_EQ(file_error(torch_file(tensor_v2("N", 0, {1}, {1}), kRecords)),
              "corrupt: torch file: a tensor's storage is none");
    EXPECT_EQ(
        file_error(torch_file(tensor_v2(unicode("x") + "Q", 0, {1}, {1}), kRecords)),
        "corrupt: torch file: a persistent id is not ('storage', class, key, location, count)");
}

TEST(TorchFile, endless_wrapping_is_refused) {
    std::string value = tensor_v2(kStorage, 0, {1}, {1});
    for (int i = 0; i < 20; ++i) {
        value = call("torch._utils _rebuild_parameter", {value, "\x88", "N"});
    }
    EXPECT_EQ(file_error(torch_file(value, kRecords)),
              "corrupt: torch file: a tensor is wrapped more than 16 times");
}

TEST(TorchFile, refuses_other_containers) {
    EXPECT_EQ(file_error(""), "corrupt: torch file: it is empty [file F]");
    EXPECT_EQ(file_error("garbage"),
              "corrupt: torch file: it begins with 'garbage', expected a zip archive or torch's "
              "magic [file F]");
    EXPECT_EQ(
        file_error(std::string(257, 'x') + "ustar" + std::string(300, '\0')),
        "unsupported: torch file: it is none, but a tar archive [file F]; unpack it and give "
        "the directory that comes out; if torch before 0.1.10 wrote it, load and save it with "
        "a newer one");
    EXPECT_EQ(file_error(test::build_zip({{"archive/version", "3"}})),
              "corrupt: torch file: the archive holds no data.pkl [file F]");
    EXPECT_EQ(file_error(torch_file("N", {}, {{"archive/constants.pkl", ""}})),
              "unsupported: torch file: it is a TorchScript archive [file F]; save the state_dict "
              "instead");
    EXPECT_EQ(file_error(torch_file("N", {}, {{"archive/code/a.py", ""}})),
              "unsupported: torch file: it is a TorchScript archive [file F]; save the state_dict "
              "instead");
}

TEST(TorchFile, reads_the_byte_order) {
    EXPECT_EQ(file_error(torch_file("N", {}, {{"archive/byteorder", "little"}})), "no error");
    EXPECT_EQ(file_error(torch_file("N", {}, {{"archive/byteorder", "big"}})),
              "unsupported: torch file: its byteorder record says big [file F]; save it on a "
              "little-endian "
              "host");
    EXPECT_EQ(file_error(torch_file("N", {}, {{"archive/byteorder", "middle"}})),
              "corrupt: torch file: its byteorder record holds 'middle', expected little or big "
              "[file F]");
}

TEST(TorchFile, errors_name_the_file_and_the_place) {
    const test::MemoryFile memory("xx" + torch_file("K\1K\2", {}).substr(2));
    const io::InputFile file = io::InputFile::open(memory.path());
    try {
        TorchFile::read(file, 1, 5);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.context(),
                  (std::vector<std::string>{"file " + memory.path().string() + " at offset 1"}));
    }
    EXPECT_TRUE(error_text([&] { TorchFile::read(file, file.size() + 1); }).starts_with("corrupt"));
    EXPECT_TRUE(error_text([&] { TorchFile::read(file, 1, file.size()); }).starts_with("corrupt"));
}

// Read calls of this process so far, as the system counts them.
long read_calls() {
    std::ifstream io("/proc/self/io");
    std::string name;
    for (long value = 0; io >> name >> value;) {
        if (name == "syscr:") {
            return value;
        }
    }
    return -1;
}

// A checkpoint of a trillion parameters has a million blobs: their reads decide the start's time.
TEST(TorchFile, a_blob_takes_two_reads) {
    const std::string value = tensor_v2(storage(kFloat, "0", 65536), 0, {65536}, {1});
    const test::MemoryFile memory(
        "123" + torch_file(value, {{"0", std::string(262144, 'x')}},
                           {{"archive/byteorder", "little"}, {"archive/version", "3\n"}}));
    const io::InputFile file = io::InputFile::open(memory.path());
    const long start = read_calls();
    if (start < 0) {
        GTEST_SKIP() << "the system does not count read calls";
    }
    const long own = read_calls() - start;
    const long before = read_calls();
    const TorchFile blob = TorchFile::read(file, 3, file.size() - 3);
    EXPECT_EQ(read_calls() - before - own, 2);
    EXPECT_EQ(blob.tensor(blob.root())->shape, (std::vector<Index>{65536}));
}

TEST(TorchFile, parses_pickles_of_equal_bytes_once) {
    KnownPickles known;
    const auto read = [&](Index columns, const std::string& data) {
        const test::MemoryFile memory(
            torch_file(tensor_v2(kStorage, 0, {2, columns}, {3, 1}), {{"0", data}}));
        const io::InputFile file = io::InputFile::open(memory.path());
        TorchFile one = TorchFile::read(file, 0, std::nullopt, false, nullptr, &known);
        EXPECT_EQ(one.tensor(one.root())->shape, (std::vector<Index>{2, columns}));
        EXPECT_EQ(one.storage_bytes(), data.size());
        return one;
    };
    const TorchFile first = read(3, std::string(24, 'a'));
    const TorchFile other = read(2, std::string(24, 'b'));
    const TorchFile same = read(3, std::string(32, 'c'));
    EXPECT_EQ(&first.pickle(), &same.pickle());
    EXPECT_NE(&first.pickle(), &other.pickle());
    EXPECT_EQ(known.size(), 2U);
}

TEST(TorchFile, sums_its_storages) {
    const test::MemoryFile memory(torch_file("N", {{"0", "abc"}, {"1", ""}, {"2", "de"}}));
    EXPECT_EQ(TorchFile::read(io::InputFile::open(memory.path())).storage_bytes(), 5U);
}

TEST(StoredTensor, knows_whether_it_is_contiguous) {
    const auto contiguous = [](std::vector<Index> shape, std::vector<Index> strides) {
        StoredTensor tensor;
        tensor.shape = std::move(shape);
        tensor.strides = std::move(strides);
        return tensor.is_contiguous();
    };
    EXPECT_TRUE(contiguous({}, {}));
    EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
    EXPECT_TRUE(contiguous({2, 1, 3}, {3, 77, 1}));
    EXPECT_TRUE(contiguous({0, 3}, {9, 9}));
    EXPECT_FALSE(contiguous({2, 3}, {1, 2}));
    EXPECT_FALSE(contiguous({2, 3}, {4, 1}));
    EXPECT_FALSE(contiguous({2, 3}, {0, 1}));
}

// Pre-zip torch.save files.

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
