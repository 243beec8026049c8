#include "formats/shared/scalar_value.hpp"

#include "formats/megatron/args.hpp"

#include "scratch.hpp"
#include "torch_builder.hpp"

namespace shardweld::formats::scalar_value {
namespace {

using test::call;
using test::global;
using test::integer;
using test::storage;
using test::tensor_v2;
using test::tuple;
using test::unicode;

using Text = std::optional<std::string>;

/// Protocol 2's bytes, of code points below 256.
std::string bytes_value(const std::string& latin1) {
    return call("_codecs encode", {unicode(latin1), unicode("latin1")});
}

std::string numpy_dtype(const std::string& type, const std::string& order = "<") {
    return call("numpy dtype", {unicode(type), "\x89", "\x88"}) +
           tuple({integer(3), unicode(order), "N", "N", "N"}) + "b";
}

std::string numpy_scalar(const std::string& type, const std::string& latin1,
                         const std::string& order = "<") {
    return call("numpy._core.multiarray scalar", {numpy_dtype(type, order), bytes_value(latin1)});
}

std::string numpy_array(const std::vector<std::int64_t>& shape, const std::string& latin1) {
    return call("numpy.core.multiarray _reconstruct",
                {global("numpy ndarray"), tuple({integer(0)}), bytes_value("b")}) +
           tuple(
               {integer(1), test::counts(shape), numpy_dtype("i4"), "\x89", bytes_value(latin1)}) +
           "b";
}

std::string with_state(const std::string& name, const std::string& key, const std::string& value) {
    return global(name) + ")\x81}" + unicode(key) + value + "sb";
}

std::string scalar_tensor(const std::string& type) {
    return tensor_v2(storage(type, "0", 1), 0, {}, {});
}

std::string little_bytes(std::uint64_t bits, int n) {
    return test::little(bits, n);
}

/// Of a file that holds the value, and a storage of such bytes.
Text read(const std::string& pickled, const std::string& element = "") {
    const Scratch scratch;
    scratch.file("a.pt", test::torch_file(pickled, {{"0", element}}));
    const auto input = io::InputFile::open(scratch.path() / "a.pt");
    const auto file = TorchFile::read(input);
    return ScalarReader(file, input).text_of(file.root());
}

TEST(ScalarValue, is_read_from_what_numpy_makes) {
    EXPECT_EQ(read(numpy_scalar("b1", "\x01")), "true");
    EXPECT_EQ(read(numpy_scalar("b1", std::string(1, '\0'))), "false");
    EXPECT_EQ(read(numpy_scalar("i8", std::string("\x05\0\0\0\0\0\0\0", 8))), "5");
    EXPECT_EQ(read(numpy_scalar("i2", std::string("\0\x05", 2), ">")), "5");
    EXPECT_EQ(read(numpy_scalar("i1", "\xc3\xbf")), "-1");  // U+00FF
    EXPECT_EQ(read(numpy_scalar("u1", "\xc3\xbf")), "255");
    EXPECT_EQ(read(numpy_scalar("f4", std::string("\0\0\xc2\x80?", 5))), "1");
    EXPECT_EQ(read(numpy_scalar("U4", std::string("T\0\0\0r\0\0\0u\0\0\0e\0\0\0", 16))), "true");
    EXPECT_EQ(read(numpy_array({}, std::string("\x07\0\0\0", 4))), "7");
    EXPECT_EQ(read(numpy_array({1, 1}, std::string("\x07\0\0\0", 4))), "7");
    EXPECT_EQ(read(numpy_array({2}, std::string("\x07\0\0\0\0\0\0\0", 8))), std::nullopt);
    EXPECT_EQ(read(numpy_scalar("i8", "\x05")), std::nullopt);
    EXPECT_EQ(read(numpy_scalar("M8", "\x05")), std::nullopt);
}

TEST(ScalarValue, is_read_from_a_tensor_of_one_element) {
    EXPECT_EQ(read(scalar_tensor("torch BoolStorage"), "\x01"), "true");
    EXPECT_EQ(read(scalar_tensor("torch LongStorage"), little_bytes(~0ULL, 8)), "-1");
    EXPECT_EQ(read(scalar_tensor("torch FloatStorage"), little_bytes(0x3dcccccd, 4)), "0.1");
    EXPECT_EQ(read(scalar_tensor("torch DoubleStorage"), little_bytes(0x40c3880000000000, 8)),
              "10000");
    EXPECT_EQ(read(scalar_tensor("torch BFloat16Storage"), little_bytes(0x4080, 2)), "4");
    EXPECT_EQ(read(scalar_tensor("torch HalfStorage"), little_bytes(0xc400, 2)), "-4");
    EXPECT_EQ(read(tensor_v2(storage("torch LongStorage", "0", 2), 0, {2}, {1}),
                   little_bytes(1, 8) + little_bytes(2, 8)),
              std::nullopt);
}

TEST(ScalarValue, is_read_from_texts_and_nodes) {
    for (const char* text : {"True", "true", " TRUE "}) {
        EXPECT_EQ(read(unicode(text)), "true") << text;
    }
    for (const char* text : {"", "None", "null"}) {
        EXPECT_EQ(read(unicode(text)), std::nullopt) << text;
    }
    EXPECT_EQ(read(unicode("False")), "false");
    EXPECT_EQ(read(unicode("32.0")), "32");
    EXPECT_EQ(read(unicode("RMSNorm")), "RMSNorm");
    EXPECT_EQ(read(with_state("omegaconf.nodes AnyNode", "_val", "\x88")), "true");
    EXPECT_EQ(read(with_state("omegaconf.nodes IntegerNode", "_val", numpy_scalar("b1", "\x01"))),
              "true");
    EXPECT_EQ(read(with_state("trainer Flag", "_val", "\x88")), std::nullopt);
}

TEST(ScalarValue, of_args_is_never_not_stated) {
    const Scratch scratch;
    const std::string node = with_state("omegaconf.nodes AnyNode", "_val", integer(4));
    const std::string content = "}(" + unicode("num_layers") + node + unicode("odd") +
                                call("trainer Odd", {}) + unicode("freqs") + "](" + integer(1) +
                                unicode("b") + "e" + unicode("none") + "Nu";
    scratch.file(
        "a.pt",
        test::torch_file(with_state("omegaconf.dictconfig DictConfig", "_content", content), {}));
    const auto input = io::InputFile::open(scratch.path() / "a.pt");
    const auto file = TorchFile::read(input);
    EXPECT_EQ(megatron::claims_of(file.root(), ScalarReader(file, input)),
              (catalogue::StatedConfig{
                  {"freqs", "[1, b]"}, {"num_layers", "4"}, {"odd", "trainer Odd"}}));
}

}  // namespace
}  // namespace shardweld::formats::scalar_value
