#include "catalogue/catalogue.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "core/codec.hpp"

namespace shardweld::catalogue {
namespace {

Catalogue sample() {
    Catalogue c;
    c.format = "some format";
    c.dialect = "some dialect";
    c.notes = {"first note", ""};
    c.files = {{"a/b.pt", 12}, {"c.pt", std::numeric_limits<Bytes>::max()}};
    Piece piece;
    piece.file = 1;
    piece.replica = 3;
    piece.base = (Bytes{1} << 40U) + 5;
    piece.storage_bytes = 1000;
    piece.patch = layout::dense_shape(std::vector<Index>{2, 3, 4}, 7);
    piece.patch.axes[0].lo = 127;
    piece.patch.axes[1].lo = 128;
    piece.located = false;
    c.tensors = {{"w", DType::bf16, {129, 131, 4}, {piece, Piece{}}},
                 {"scalar", DType::f32, {}, {}}};
    Shard shard;
    shard.name = "decoder.layers.0.x";
    shard.dtype = DType::f8_e4m3;
    shard.shape = {2, 3, 4};
    shard.at = {1, 2, 3, 4, -1};
    shard.piece = piece;
    c.shards = {shard};
    c.ignored = {{"optimizer", "training state", -2, 99}};
    c.facts = {{"tp", 2}, {"odd", std::numeric_limits<Index>::min()}};
    c.claims = {{"num_layers", "4"}};
    c.inert_globals = {{"a b", 3}};
    return c;
}

std::vector<std::byte> bytes_of(const Catalogue& c) {
    ByteWriter out;
    out.put(c);
    return out.take();
}

TEST(Codec, gives_back_every_field) {
    const auto bytes = bytes_of(sample());
    ByteReader in(bytes);
    const auto got = in.get<Catalogue>();
    EXPECT_TRUE(in.at_end());
    EXPECT_EQ(got.format, "some format");
    EXPECT_EQ(got.dialect, "some dialect");
    EXPECT_EQ(got.notes, (std::vector<std::string>{"first note", ""}));
    ASSERT_EQ(got.files.size(), 2U);
    EXPECT_EQ(got.files[0].path, "a/b.pt");
    EXPECT_EQ(got.files[0].size, 12U);
    EXPECT_EQ(got.files[1].size, std::numeric_limits<Bytes>::max());
    ASSERT_EQ(got.tensors.size(), 2U);
    EXPECT_EQ(got.tensors[0].name, "w");
    EXPECT_EQ(got.tensors[0].dtype, DType::bf16);
    EXPECT_EQ(got.tensors[0].shape, (std::vector<Index>{129, 131, 4}));
    ASSERT_EQ(got.tensors[0].pieces.size(), 2U);
    const Piece want = sample().tensors[0].pieces[0];
    for (const Piece& piece : {got.tensors[0].pieces[0], got.shards.at(0).piece}) {
        EXPECT_EQ(piece.file, 1U);
        EXPECT_EQ(piece.replica, 3U);
        EXPECT_EQ(piece.base, (Bytes{1} << 40U) + 5);
        EXPECT_EQ(piece.storage_bytes, 1000U);
        EXPECT_EQ(piece.patch, want.patch);
        EXPECT_FALSE(piece.located);
    }
    EXPECT_TRUE(got.tensors[0].pieces[1].located);
    EXPECT_EQ(got.tensors[1].shape, std::vector<Index>{});
    EXPECT_EQ(got.shards[0].name, "decoder.layers.0.x");
    EXPECT_EQ(got.shards[0].dtype, DType::f8_e4m3);
    EXPECT_EQ(got.shards[0].at, (Coordinates{1, 2, 3, 4, -1}));
    ASSERT_EQ(got.ignored.size(), 1U);
    EXPECT_EQ(got.ignored[0].pattern, "optimizer");
    EXPECT_EQ(got.ignored[0].reason, "training state");
    EXPECT_EQ(got.ignored[0].count, -2);
    EXPECT_EQ(got.ignored[0].bytes, 99U);
    EXPECT_EQ(got.facts, sample().facts);
    EXPECT_EQ(got.claims, sample().claims);
    EXPECT_EQ(got.inert_globals, sample().inert_globals);
    EXPECT_EQ(bytes_of(got), bytes);
}

TEST(Codec, refuses_every_truncation) {
    const auto bytes = bytes_of(sample());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        ByteReader in{std::span(bytes).first(size)};
        try {
            (void)in.get<Catalogue>();
            ADD_FAILURE() << "accepted " << size << " of " << bytes.size() << " bytes";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::internal);
        }
    }
}

TEST(Codec, takes_less_than_forty_bytes_for_a_piece) {
    std::vector<Piece> pieces(1000);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        pieces[i].file = 700;
        pieces[i].base = Bytes{i} * 123456789;
        pieces[i].storage_bytes = 33554432;
        pieces[i].patch = layout::dense_shape(std::vector<Index>{1, 4096, 4096});
        pieces[i].patch.axes[0].lo = 60;
    }
    ByteWriter out;
    out.put(pieces);
    EXPECT_LT(out.take().size(), 40000U);
}

}  // namespace
}  // namespace shardweld::catalogue
