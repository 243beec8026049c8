#include "formats/dcp/uneven_rows.hpp"

#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"

#include "scratch.hpp"
#include "torch_builder.hpp"

namespace shardweld::formats::dcp {
namespace {

/// A save of one tensor with two columns: where .metadata says that its rows begin, how many it
/// says there are, and how many are stored.
struct Save {
    struct Part {
        Index begin;
        Index said;
        Index stored;
    };

    Save(Index rows, const std::vector<Part>& parts) {
        tensor.name = "w";
        tensor.shape = {rows, 2};
        std::ofstream out(scratch.path() / "__0_0.distcp", std::ios::binary);
        Bytes at = 0;
        for (const Part& part : parts) {
            const std::string bytes(static_cast<std::size_t>(part.stored) * 8, 'x');
            const std::string archive = test::torch_file(
                test::tensor_v2(test::storage("torch FloatStorage", "0", part.stored * 2), 0,
                                {part.stored, 2}, {2, 1}),
                {{"0", bytes}});
            out << archive;
            DcpChunk chunk;
            chunk.offsets = numbers.emplace_back(std::vector<Index>{part.begin, 0});
            chunk.sizes = numbers.emplace_back(std::vector<Index>{part.said, 2});
            chunk.offset = at;
            chunk.length = archive.size();
            at += chunk.length;
            tensor.chunks.push_back(chunk);
        }
        metadata.files.push_back({"__0_0.distcp", at});
        location.directory = scratch.path();
    }

    /// Begin and end of the rows of each piece, in the order of what is stored.
    std::vector<std::pair<Index, Index>> read() {
        const catalogue::Tensor got = tensor_as_stored(location, metadata, tensor, placed);
        std::map<Bytes, std::pair<Index, Index>> rows;
        for (const catalogue::Piece& piece : got.pieces) {
            const layout::Axis& axis = piece.patch.axes[0];
            rows[piece.base] = {axis.lo, axis.lo + axis.extent};
        }
        std::vector<std::pair<Index, Index>> all;
        for (const auto& [base, one] : rows) {
            all.push_back(one);
        }
        return all;
    }

    Scratch scratch;
    std::deque<std::vector<Index>> numbers;
    Location location;
    DcpMetadata metadata;
    DcpTensor tensor;
    std::vector<std::string> placed;
};

using Rows = std::vector<std::pair<Index, Index>>;

TEST(UnevenRows, takes_what_is_as_metadata_says) {
    Save save(4, {{0, 2, 2}, {2, 2, 2}, {4, 0, 0}});
    EXPECT_EQ(save.read(), (Rows{{0, 2}, {2, 4}}));
    EXPECT_TRUE(save.placed.empty());
}

TEST(UnevenRows, places_rows_where_their_shapes_leave_one_way) {
    Save one(7, {{0, 2, 2}, {4, 1, 1}, {2, 2, 2}, {5, 1, 1}, {6, 1, 0}, {7, 0, 1}});
    EXPECT_EQ(one.read(), (Rows{{0, 2}, {4, 5}, {2, 4}, {5, 6}, {6, 7}}));
    EXPECT_EQ(one.placed, std::vector<std::string>{"w"});
    // Two gaps side by side hold what is stored as one.
    Save merged(6, {{0, 4, 4}, {4, 1, 0}, {5, 1, 0}, {6, 0, 2}});
    EXPECT_EQ(merged.read(), (Rows{{0, 4}, {4, 6}}));
    // Gaps of different sizes.
    Save two(8, {{0, 2, 0}, {2, 3, 3}, {5, 1, 0}, {6, 2, 2}, {8, 0, 1}, {8, 0, 2}});
    EXPECT_EQ(two.read(), (Rows{{2, 5}, {6, 8}, {5, 6}, {0, 2}}));
}

TEST(UnevenRows, refuses_rows_that_could_belong_elsewhere) {
    for (const auto& parts : std::vector<std::vector<Save::Part>>{
             // exchanged, they would fit as well
             {{0, 2, 2}, {2, 1, 0}, {3, 1, 0}, {4, 0, 1}, {4, 0, 1}},
             // rows that are nowhere
             {{0, 2, 2}, {2, 1, 0}, {3, 1, 0}, {4, 0, 1}},
             // more rows than there is room for
             {{0, 3, 3}, {3, 1, 0}, {4, 0, 2}},
             // neither here nor there
             {{0, 2, 2}, {2, 2, 1}, {4, 0, 1}}}) {
        Save save(4, parts);
        expect_error(ErrorCode::mismatch, "FSDP2", [&] { save.read(); });
        EXPECT_TRUE(save.placed.empty());
    }
}

}  // namespace
}  // namespace shardweld::formats::dcp
