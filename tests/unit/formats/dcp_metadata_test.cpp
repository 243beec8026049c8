#include "formats/containers/dcp_metadata.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "support/error_text.hpp"
#include "support/memory_file.hpp"

#include "dcp_builder.hpp"

namespace shardweld::formats {
namespace {

using test::chunk_of;
using test::error_text;
using test::index_of;
using test::integer;
using test::metadata_of;
using test::Pairs;
using test::place_of;
using test::size_of_counts;
using test::tensor_of;
using test::tuple;
using test::unicode;

DcpMetadata read_metadata(const std::string& text) {
    const test::MemoryFile memory(text);
    return DcpMetadata::read(memory.path());
}

std::string metadata_error(const std::string& text) {
    return test::with_short_names(error_text([&] { read_metadata(text); }));
}

std::string shown(const DcpMetadata& metadata) {
    std::string text;
    for (const DcpTensor& tensor : metadata.tensors) {
        text += tensor.name + " " + std::string(torch_name(tensor.dtype)) + " " +
                shape_text(tensor.shape) + ":";
        for (const DcpChunk& chunk : tensor.chunks) {
            text += " " + shape_text(chunk.offsets) + shape_text(chunk.sizes) + "=" +
                    metadata.files.at(chunk.file).path + "+" + std::to_string(chunk.offset) + "," +
                    std::to_string(chunk.length);
        }
        text += "\n";
    }
    for (const DcpObject& object : metadata.objects) {
        text += object.name + " object " + std::to_string(object.length) + "\n";
    }
    return text;
}

const std::string kBytes = test::object(test::kDcp + "BytesStorageMetadata", {});
const Pairs kEntries = {
    {unicode("w"), tensor_of({4, 2}, {chunk_of({2, 0}, {2, 2}), chunk_of({0, 0}, {2, 2})})},
    {unicode("rng/shard_0"), kBytes},
    {unicode("a"), tensor_of({}, {chunk_of({}, {})}, "torch float32")}};
const Pairs kPlaces = {{index_of("rng/shard_0", "N"), place_of("__0_0.distcp", 0, 99)},
                       {index_of("w", size_of_counts({2, 0})), place_of("__10_0.distcp", 7, 8)},
                       {index_of("w", size_of_counts({0, 0})), place_of("__2_0.distcp", 500, 80)},
                       {index_of("a", size_of_counts({})), place_of("__0_0.distcp", 99, 30)}};

TEST(DcpMetadata, reads_tensors_objects_and_places) {
    const DcpMetadata metadata = read_metadata(metadata_of(kEntries, kPlaces));
    std::vector<std::string> files;
    for (const catalogue::File& file : metadata.files) {
        files.push_back(file.path + " " + std::to_string(file.size));
    }
    EXPECT_EQ(files, (std::vector<std::string>{"__0_0.distcp 129", "__2_0.distcp 580",
                                               "__10_0.distcp 15"}));
    EXPECT_EQ(shown(metadata),
              "a float32 []: [][]=__0_0.distcp+99,30\n"
              "w bfloat16 [4, 2]: [0, 0][2, 2]=__2_0.distcp+500,80 "
              "[2, 0][2, 2]=__10_0.distcp+7,8\n"
              "rng/shard_0 object 99\n");
    EXPECT_FALSE(metadata.has_transforms);
    EXPECT_TRUE(metadata.paths.empty());
}

TEST(DcpMetadata, passes_over_megatrons_plans) {
    const std::string text =
        metadata_of(kEntries, kPlaces,
                    {{"all_local_plans", "](" + test::object("m SavePlan", {{"items", "]"}}) + "e"},
                     {"version", unicode("1.0.0")}});
    EXPECT_EQ(shown(read_metadata(text)), shown(read_metadata(metadata_of(kEntries, kPlaces))));
}

TEST(DcpMetadata, reads_planner_paths) {
    const std::string planner =
        test::items({{unicode("m.w"), tuple({unicode("m"), unicode("w")})},
                     {unicode("m.list.0"), tuple({unicode("m"), unicode("list"), integer(0)})}});
    const DcpMetadata metadata = read_metadata(metadata_of({}, {}, {{"planner_data", planner}}));
    EXPECT_EQ(metadata.paths, (std::map<std::string, std::vector<std::string>>{
                                  {"m.list.0", {"m", "list", "0"}}, {"m.w", {"m", "w"}}}));
}

TEST(DcpMetadata, reads_a_whole_tensor_indexed_without_offset) {
    EXPECT_EQ(
        shown(read_metadata(metadata_of({{unicode("w"), tensor_of({3}, {chunk_of({0}, {3})})}},
                                        {{index_of("w", "N"), place_of("f", 1, 2)}}))),
        "w bfloat16 [3]: [0][3]=f+1,2\n");
}

// The rank that coordinates a save has its own chunks' offsets in both places as one object.
TEST(DcpMetadata, reads_offsets_that_index_and_chunks_share) {
    Pairs entries;
    Pairs places;
    std::string wanted;
    for (int i = 0; i < 100; ++i) {
        const std::string name = "w" + std::to_string(1000 + i);
        const std::string slot(1, static_cast<char>(i));
        const std::string at = size_of_counts({0, 0}) + "q" + slot;
        entries.emplace_back(
            unicode(name),
            tensor_of({2, 3 + i},
                      {test::object(test::kDcp + "ChunkStorageMetadata",
                                    {{"offsets", at}, {"sizes", size_of_counts({2, 3 + i})}})}));
        places.emplace_back(index_of(name, "h" + slot), place_of("f", i, 10));
        wanted += name + " bfloat16 [2, " + std::to_string(3 + i) + "]: [0, 0][2, " +
                  std::to_string(3 + i) + "]=f+" + std::to_string(i) + ",10\n";
    }
    EXPECT_EQ(shown(read_metadata(metadata_of(entries, places))), wanted);
}

TEST(DcpMetadata, leaves_tiling_to_its_caller) {
    const DcpMetadata metadata =
        read_metadata(metadata_of({{unicode("w"), tensor_of({9}, {chunk_of({0}, {3})})}},
                                  {{index_of("w", size_of_counts({0})), place_of("f", 1, 2)}}));
    EXPECT_EQ(error_text([&] { check_tiling(formats::tensor_of(metadata.tensors.at(0))); }),
              "corrupt: w of shape [9]: no file holds the elements between [3] and [9]; "
              "take another save");
}

TEST(DcpMetadata, refuses_paths_that_leave_the_directory) {
    for (const std::string path : {"../x", "/etc/hostname", "a/../../x", "", "a//b", "./a", ".."}) {
        EXPECT_EQ(metadata_error(metadata_of({}, {{index_of("w", "N"), place_of(path, 0, 1)}})),
                  "corrupt: .metadata: relative_path '" + path +
                      "' leaves the checkpoint directory [file F]");
    }
    EXPECT_EQ(metadata_error(metadata_of({}, {{index_of("w", "N"), place_of("a/b", 0, 1)}})),
              "no error");
}

TEST(DcpMetadata, refuses_chunks_without_storage) {
    Pairs places = kPlaces;
    places.erase(places.begin() + 1);
    EXPECT_EQ(
        metadata_error(metadata_of(kEntries, places)),
        "corrupt: .metadata: tensor 'w': the chunk at [2, 0] is not in storage_data [file F]");
    places.push_back({index_of("w", size_of_counts({0, 0})), place_of("f", 0, 1)});
    EXPECT_EQ(metadata_error(metadata_of(kEntries, places)),
              "corrupt: .metadata: two items of 'w' at [0, 0] [file F]");
}

std::string one_chunk(const std::vector<std::int64_t>& size, const std::string& chunk) {
    return metadata_error(metadata_of({{unicode("w"), tensor_of(size, {chunk})}}, {}));
}

TEST(DcpMetadata, refuses_chunks_outside_their_tensor) {
    EXPECT_EQ(one_chunk({4}, chunk_of({3}, {2})),
              "corrupt: .metadata: tensor 'w' of shape [4] has a chunk outside of it: [2] at [3] "
              "[file F]");
    EXPECT_EQ(one_chunk({4}, chunk_of({3, 0}, {1, 1})),
              "corrupt: .metadata: tensor 'w' of shape [4] has a chunk outside of it: [1, 1] at "
              "[3, 0] [file F]");
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(one_chunk({4}, chunk_of({kMax}, {kMax})),
              "corrupt: .metadata: tensor 'w' of shape [4] has a chunk outside of it: "
              "[9223372036854775807] at [9223372036854775807] [file F]");
    EXPECT_EQ(one_chunk({4}, chunk_of({-1}, {2})),
              "corrupt: tensor 'w': a chunk's offsets is negative: -1 [file F]");
    EXPECT_TRUE(one_chunk({kMax, kMax}, chunk_of({0, 0}, {1, 1})).starts_with("corrupt: "));
}

TEST(DcpMetadata, refuses_what_it_cannot_read) {
    const Pairs quantised = {{unicode("w"), tensor_of({1}, {}, "torch qint8")}};
    EXPECT_EQ(metadata_error(metadata_of(quantised, {})),
              "unsupported: dtype torch.qint8 is not supported [tensor 'w'; file F]");
    const std::string zstd = tuple({unicode("zstd")});
    EXPECT_EQ(metadata_error(
                  metadata_of({{unicode("w"), tensor_of({1}, {chunk_of({0}, {1})})}},
                              {{index_of("w", size_of_counts({0})), place_of("f", 0, 1, zstd)}})),
              "unsupported: .metadata: tensor 'w' is stored through a transform (compressed) "
              "[file F]; save it without");
    EXPECT_TRUE(read_metadata(metadata_of({{unicode("o"), kBytes}},
                                          {{index_of("o", "N"), place_of("f", 0, 1, zstd)}}))
                    .has_transforms);
    EXPECT_EQ(metadata_error("\x80\x04N."),
              "corrupt: .metadata: it holds none, expected torch's Metadata [file F]");
    EXPECT_EQ(metadata_error(metadata_of({{unicode("w"), "K\1"}}, {})),
              "corrupt: .metadata: entry 'w' is an integer, expected a tensor or bytes [file F]");
    EXPECT_EQ(metadata_error(metadata_of({{unicode("w"), kBytes}, {unicode("w"), kBytes}}, {})),
              "corrupt: .metadata: two entries with one name: 'w' [file F]");
    EXPECT_EQ(metadata_error(metadata_of({}, {{index_of("w", "N"), place_of("f", -1, 1)}})),
              "corrupt: the offset of an item of 'w' is negative: -1 [file F]");
    EXPECT_TRUE(
        metadata_error(metadata_of({}, {{"N", "N"}})).starts_with("corrupt: .metadata: an entry"));
}

TEST(DcpMetadata, errors_name_file_and_tensor) {
    const test::MemoryFile memory(
        metadata_of({{unicode("w"), tensor_of({1}, {}, "torch qint8")}}, {}));
    try {
        DcpMetadata::read(memory.path());
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.context(),
                  (std::vector<std::string>{"tensor 'w'", "file " + memory.path().string()}));
    }
}

}  // namespace
}  // namespace shardweld::formats
