// HDF5 input: what is read, what is refused, and that a file that misleads the library harms
// nobody. The files of tests/data/hdf5 are made by h5py (make.py there).

#include <tuple>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "core/process/shared_object.hpp"
#include "formats/hdf5/dataset.hpp"
#include "formats/hdf5/lister.hpp"
#include "formats/registry.hpp"
#include "hdf5/parts.hpp"
#include "io/whole_file.hpp"

#include "scratch.hpp"

namespace shardweld::formats::hdf5 {
namespace {

using shardweld::hdf5::ListingEntry;

fs::path data(const std::string& name) {
    return fs::path(SHARDWELD_TEST_DATA) / "hdf5" / name;
}

Dataset plain() {
    Dataset dataset;
    dataset.name = "w";
    dataset.storage = "F32";
    dataset.layout = DatasetLayout::contiguous;
    dataset.offset = 100;
    dataset.shape = {4, 2};
    return dataset;
}

/// Code and text of the error when `change` is made to a dataset that is read.
std::pair<ErrorCode, std::string> refusal(const std::function<void(Dataset&)>& change) {
    Dataset dataset = plain();
    change(dataset);
    return error_of([&] { (void)tensor_of(dataset, 132); });
}

TEST(Hdf5Dataset, is_a_dense_piece) {
    const auto tensor = tensor_of(plain(), 132);
    EXPECT_EQ(tensor.shape, (std::vector<Index>{4, 2}));
    EXPECT_EQ(tensor.dtype, DType::f32);
    ASSERT_EQ(tensor.pieces.size(), 1U);
    EXPECT_EQ(tensor.pieces[0].base, 100U);
    EXPECT_EQ(tensor.pieces[0].storage_bytes, 32U);
    EXPECT_EQ(layout::to_text(tensor.pieces[0].patch),
              layout::to_text(layout::dense_shape(tensor.shape)));

    Dataset part = plain();
    part.place = PiecePlace{{8, 3}, {4, 1}};
    const auto whole = tensor_of(part, 132);
    EXPECT_EQ(whole.shape, (std::vector<Index>{8, 3}));
    EXPECT_EQ(whole.pieces[0].patch.axes[0], (layout::Axis{4, 4, 2}));
    EXPECT_EQ(whole.pieces[0].patch.axes[1], (layout::Axis{1, 2, 1}));
}

TEST(Hdf5Dataset, takes_every_dtype_in_its_own_storage_only) {
    const std::vector<std::pair<const char*, const char*>> pairs = {
        {"BOOL", "U8"},    {"U8", "U8"},          {"I8", "I8"},    {"U16", "U16"},
        {"I16", "I16"},    {"U32", "U32"},        {"I32", "I32"},  {"U64", "U64"},
        {"I64", "I64"},    {"F8_E4M3", "U8"},     {"F16", "F16"},  {"F8_E5M2", "U8"},
        {"F8_E8M0", "U8"}, {"F8_E4M3FNUZ", "U8"}, {"BF16", "U16"}, {"F32", "F32"},
        {"F64", "F64"},    {"C64", "C64"},        {"BOOL", "BOOL"}};
    for (const auto& [dtype, storage] : pairs) {
        Dataset dataset = plain();
        dataset.dtype = dtype;
        dataset.storage = storage;
        dataset.shape = {4};
        EXPECT_EQ(safetensors_name(tensor_of(dataset, 132).dtype), dtype);
        dataset.storage = std::string(storage) == "F16" ? "U16" : "F16";
        expect_error(ErrorCode::corrupt, dtype, [&] { (void)tensor_of(dataset, 132); });
    }
}

TEST(Hdf5Dataset, calls_an_element_type_without_a_name_no_damage) {
    for (const char* const dtype : {"", "BF16", "F8_E4M3"}) {
        Dataset dataset = plain();
        dataset.storage = "";
        dataset.dtype = dtype;
        expect_error(ErrorCode::unsupported, "element type",
                     [&] { (void)tensor_of(dataset, 132); });
    }
}

TEST(Hdf5Dataset, keeps_to_the_file) {
    EXPECT_EQ(refusal([](Dataset& one) { one.offset = 100; }).first, ErrorCode::ok);
    EXPECT_EQ(refusal([](Dataset& one) { one.offset = 101; }).first, ErrorCode::corrupt);
    EXPECT_EQ(refusal([](Dataset& one) { one.offset = ~Bytes{1}; }).first, ErrorCode::corrupt);
    EXPECT_EQ(refusal([](Dataset& one) { one.offset = std::nullopt; }).first, ErrorCode::not_found);
    EXPECT_EQ(refusal([](Dataset& one) { one.shape = {-4, -2}; }).first, ErrorCode::corrupt);
    EXPECT_EQ(refusal([](Dataset& one) {
                  one.shape = {Index{1} << 40, Index{1} << 40};
              }).first,
              ErrorCode::corrupt);
    EXPECT_EQ(refusal([](Dataset& one) { one.shape = {Index{1} << 62}; }).first,
              ErrorCode::corrupt);
    EXPECT_EQ(refusal([](Dataset& one) { one.shape.assign(9, 1); }).first, ErrorCode::unsupported);
}

TEST(Hdf5Dataset, keeps_pieces_inside_their_tensor) {
    const auto code = [](PiecePlace place) {
        return refusal([&](Dataset& one) { one.place = std::move(place); }).first;
    };
    EXPECT_EQ(code({{4, 2}, {0, 0}}), ErrorCode::ok);
    EXPECT_EQ(code({{4, 2}, {1, 0}}), ErrorCode::corrupt);
    EXPECT_EQ(code({{3, 2}, {0, 0}}), ErrorCode::corrupt);
    EXPECT_EQ(code({{8, 2}, {-1, 0}}), ErrorCode::corrupt);
    EXPECT_EQ(code({{8, 2}, {0}}), ErrorCode::corrupt);
    EXPECT_EQ(code({{8}, {0}}), ErrorCode::corrupt);
    const Index most = std::numeric_limits<Index>::max();
    EXPECT_EQ(code({{most, 2}, {most, 0}}), ErrorCode::corrupt);
    EXPECT_EQ(code({{most, 2}, {most - 4, 0}}), ErrorCode::corrupt);
}

std::vector<std::byte> listing(const std::function<void(shardweld::hdf5::ListingWriter&)>& body) {
    shardweld::hdf5::ListingWriter out;
    out.put(shardweld::hdf5::kListingBegin);
    body(out);
    out.put(ListingEntry::end);
    out.put(shardweld::hdf5::kListingEnd);
    return out.take();
}

std::vector<std::byte> listing_of_one() {
    return listing([](shardweld::hdf5::ListingWriter& out) {
        out.put(ListingEntry::dataset);
        out.put("w");
        out.put("F32");
        out.put(DatasetLayout::contiguous);
        out.put<std::uint64_t>(0);
        out.put<std::uint64_t>(100);
        out.put(std::vector<Index>{4, 2});
        out.put<std::uint8_t>(0);
        out.put("");
        out.put<std::uint8_t>(0);
        out.put(std::vector<Index>{});
        out.put(std::vector<Index>{});
        out.put("");
    });
}

TEST(Hdf5Listing, is_read_whole_or_refused) {
    const auto bytes = listing_of_one();
    const auto datasets = parse_listing(bytes);
    ASSERT_EQ(datasets.size(), 1U);
    EXPECT_EQ(datasets[0].name, "w");
    EXPECT_EQ(datasets[0].shape, (std::vector<Index>{4, 2}));
    EXPECT_FALSE(datasets[0].place);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        expect_error(ErrorCode::corrupt, "list of datasets",
                     [&] { (void)parse_listing(std::span(bytes).first(size)); });
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_EQ(error_of([&] { (void)parse_listing(longer); }).first, ErrorCode::corrupt);
    const auto failure = [](const char* reason) {
        return listing([&](shardweld::hdf5::ListingWriter& out) {
            out.put(ListingEntry::failure);
            out.put(std::string(reason));
        });
    };
    expect_error(ErrorCode::corrupt, "truncated file",
                 [&] { (void)parse_listing(failure("truncated file")); });
    // HDF5 2.0's chunks of 4 GiB, as older libraries see them.
    expect_error(ErrorCode::unsupported, "layout message",
                 [&] { (void)parse_listing(failure("bad version number for layout message")); });
    // Any byte may be anything: an error or a list, nothing else.
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        for (const unsigned value : {0U, 1U, 0x7FU, 0xFFU}) {
            auto changed = bytes;
            changed[at] = static_cast<std::byte>(value);
            const ErrorCode code = error_of([&] { (void)parse_listing(changed); }).first;
            EXPECT_TRUE(code == ErrorCode::ok || code == ErrorCode::corrupt ||
                        code == ErrorCode::unsupported)
                << at;
        }
    }
}

/// A program that does `body` instead of listing.
fs::path script(const Scratch& scratch, const std::string& body) {
    scratch.file("lister.sh", "#!/bin/sh\n" + body + "\n");
    fs::permissions(scratch.path() / "lister.sh", fs::perms::owner_all);
    return scratch.path() / "lister.sh";
}

TEST(Hdf5Lister, survives_whatever_its_program_does) {
    const Scratch scratch;
    const auto run = [&](const std::string& body, const ListerLimits& limits) {
        return error_of([&] { (void)run_lister(script(scratch, body), "file", limits); });
    };
    EXPECT_EQ(run("printf %s \"$1\"", {}).first, ErrorCode::ok);
    for (const auto& [body, seconds, part] :
         {std::tuple("kill -SEGV $$", 60, "signal 11"), std::tuple("exit 3", 60, "code 3"),
          std::tuple("exec sleep 1000", 1, "more than 1 seconds"),
          std::tuple("yes", 60, "more than 100 kB")}) {
        const auto [code, text] = run(body, {seconds, 100'000});
        EXPECT_EQ(code, ErrorCode::corrupt) << body;
        EXPECT_NE(text.find(part), std::string::npos) << body << ": " << text;
    }
    EXPECT_EQ(error_of([&] { (void)run_lister(scratch.path() / "absent", "file"); }).first,
              ErrorCode::not_found);
}

/// Tests with the real library.
class Hdf5Files : public testing::Test {
  protected:
    void SetUp() override {
        if (!find_installed(shardweld::hdf5::kListerFile)) {
            GTEST_SKIP() << "built without HDF5: no HDF5 file is read";
        }
    }

    static catalogue::Catalogue read(const fs::path& directory) {
        JobInput request;
        request.directory = directory;
        request.backend = "hdf5";
        return read_catalogue(locate(request));
    }

    /// The error of reading one file, which is put into a directory of its own.
    static std::pair<ErrorCode, std::string> error_with(const fs::path& file) {
        const Scratch scratch;
        fs::copy_file(file, scratch.path() / "w.h5");
        return error_of([&] { (void)read(scratch.path()); });
    }
};

TEST_F(Hdf5Files, that_lost_their_types_are_warned_of) {
    EXPECT_TRUE(read(data("llama-2ranks/source")).warnings.empty());
    const Scratch scratch;
    scratch.copy(data("llama-2ranks/source"));
    for (const auto& entry : fs::directory_iterator(scratch.path())) {
        if (entry.path().extension() != ".h5") {
            continue;
        }
        std::string bytes = io::read_text(entry.path(), 1U << 20U);
        const std::string name = "shardweld_dtype";
        for (auto at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at)) {
            bytes[at] = 'S';
        }
        scratch.file(entry.path().filename().string(), bytes);
    }
    const auto bare = read(scratch.path());
    ASSERT_EQ(bare.warnings.count("type_unstated"), 1U);
    EXPECT_NE(bare.warnings.at("type_unstated").find("model.embed_tokens.weight"),
              std::string::npos);
    EXPECT_EQ(bare.tensors[1].dtype, DType::u16);
}

TEST_F(Hdf5Files, are_joined_from_pieces) {
    const auto read_back = read(data("llama-2ranks/source"));
    EXPECT_EQ(read_back.format, "hdf5");
    EXPECT_EQ(read_back.dialect, "hf_module");
    EXPECT_EQ(read_back.files.size(), 2U);
    ASSERT_EQ(read_back.tensors.size(), 12U);
    const auto& embedding = read_back.tensors[1];
    EXPECT_EQ(embedding.name, "model.embed_tokens.weight");
    EXPECT_EQ(embedding.dtype, DType::bf16);
    EXPECT_EQ(embedding.shape, (std::vector<Index>{10, 8}));
    ASSERT_EQ(embedding.pieces.size(), 2U);
    EXPECT_EQ(embedding.pieces[1].patch.axes[0], (layout::Axis{4, 6, 8}));
    const auto& norm = read_back.tensors.back();
    EXPECT_EQ(norm.name, "model.norm.weight");
    ASSERT_EQ(norm.pieces.size(), 2U);
    EXPECT_EQ(norm.pieces[1].replica, 1U);
}

TEST_F(Hdf5Files, keep_their_types_without_attributes) {
    const Scratch scratch;
    fs::copy_file(data("types.h5"), scratch.path() / "types.h5");
    std::map<std::string, std::string> dtypes;
    const auto read_back = read(scratch.path());
    for (const auto& tensor : read_back.tensors) {
        dtypes[tensor.name] = safetensors_name(tensor.dtype);
    }
    EXPECT_EQ(dtypes, (std::map<std::string, std::string>{{"bool", "BOOL"},
                                                          {"complex64", "C64"},
                                                          {"float16", "F16"},
                                                          {"float32", "F32"},
                                                          {"float64", "F64"},
                                                          {"int16", "I16"},
                                                          {"int32", "I32"},
                                                          {"int64", "I64"},
                                                          {"int8", "I8"},
                                                          {"scalar", "F32"},
                                                          {"uint16", "U16"},
                                                          {"uint32", "U32"},
                                                          {"uint64", "U64"},
                                                          {"uint8", "U8"}}));
    ASSERT_EQ(read_back.ignored.size(), 2U);
    EXPECT_EQ(read_back.ignored[0].pattern, "empty");
    EXPECT_EQ(read_back.ignored[1].pattern, "null");
}

TEST_F(Hdf5Files, that_are_not_read_say_why) {
    const std::vector<std::tuple<const char*, ErrorCode, const char*>> cases = {
        {"chunked", ErrorCode::unsupported, "h5repack -l CONTI -f NONE"},
        {"compressed", ErrorCode::unsupported, "h5repack -l CONTI -f NONE"},
        {"compact", ErrorCode::unsupported, "h5repack -l CONTI -f NONE"},
        {"unwritten", ErrorCode::not_found, "never written"},
        {"external_link", ErrorCode::unsupported, "link to another file"},
        {"soft_link", ErrorCode::unsupported, "a soft link"},
        {"external_storage", ErrorCode::unsupported, "in other files"},
        {"virtual", ErrorCode::unsupported, "virtual dataset"},
        {"group", ErrorCode::unsupported, "\"layers\" is a group"},
        {"big_endian", ErrorCode::unsupported, "element type"},
        {"text", ErrorCode::unsupported, "element type"},
        {"dtype_unknown", ErrorCode::corrupt, "F99"},
        {"dtype_wrong", ErrorCode::corrupt, "BF16"},
        {"dtype_number", ErrorCode::corrupt, "shardweld_dtype"},
        {"dtype_long", ErrorCode::corrupt, "shardweld_dtype"},
        {"offsets_alone", ErrorCode::corrupt, "missing"},
        {"piece_outside", ErrorCode::corrupt, "shardweld_offsets"},
        {"piece_negative", ErrorCode::corrupt, "shardweld_offsets"},
        {"piece_axes", ErrorCode::corrupt, "shardweld_global_shape"},
        {"piece_huge", ErrorCode::corrupt, "shardweld_global_shape"},
        {"piece_gap", ErrorCode::not_found, "no file holds"},
        {"past_end", ErrorCode::corrupt, "past the end"},
    };
    for (const auto& [name, code, part] : cases) {
        const auto [got, text] = error_with(data("bad") / (std::string(name) + ".h5"));
        EXPECT_EQ(name_of(got), name_of(code)) << name << ": " << text;
        EXPECT_NE(text.find(part), std::string::npos) << name << ": " << text;
        EXPECT_NE(text.find("w"), std::string::npos) << name << ": " << text;
    }
}

TEST_F(Hdf5Files, may_be_damaged_anywhere) {
    const auto blob = io::read_bytes(data("llama-2ranks/source/rank_0.h5"), Bytes{1} << 20U);
    const Scratch scratch;
    fs::copy_file(data("llama-2ranks/source/rank_1.h5"), scratch.path() / "rank_1.h5");
    const auto code_with = [&](const std::vector<std::byte>& bytes) {
        const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        scratch.file("rank_0.h5", text);
        return error_of([&] { (void)read(scratch.path()); }).first;
    };
    EXPECT_EQ(code_with(blob), ErrorCode::ok);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{8}, blob.size() / 2, blob.size() - 1}) {
        EXPECT_EQ(code_with({blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size)}),
                  ErrorCode::corrupt)
            << size;
    }
    std::size_t n_refused = 0;
    for (std::size_t at = 0; at < blob.size(); at += blob.size() / 32) {
        auto changed = blob;
        changed[at] ^= std::byte{0xFF};
        const ErrorCode code = code_with(changed);
        EXPECT_TRUE(code == ErrorCode::ok || code == ErrorCode::corrupt ||
                    code == ErrorCode::unsupported || code == ErrorCode::not_found ||
                    code == ErrorCode::mismatch)
            << at << ": " << name_of(code);
        n_refused += code == ErrorCode::ok ? 0 : 1;
    }
    EXPECT_GT(n_refused, 3U);
}

TEST_F(Hdf5Files, that_are_numbered_are_all_there) {
    const Scratch scratch;
    fs::copy_file(data("types.h5"), scratch.path() / "model-00001-of-00003.h5");
    fs::copy_file(data("types.h5"), scratch.path() / "model-00003-of-00003.h5");
    expect_error(ErrorCode::not_found, "of 3 files of one set 2 are there",
                 [&] { (void)read(scratch.path()); });
}

TEST_F(Hdf5Files, are_never_read_unasked) {
    JobInput request;
    request.directory = data("llama-2ranks/source");
    expect_error(ErrorCode::unsupported, "--backend hdf5", [&] { (void)locate(request); });
}

}  // namespace
}  // namespace shardweld::formats::hdf5
