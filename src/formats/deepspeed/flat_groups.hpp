// Where parameters lie in the flat partitions of ZeRO.
// Pure arithmetic in elements. Source: DeepSpeed 0.19.8
// deepspeed/utils/zero_to_fp32.py (zero2_... and zero3_merge_trainable_params).
#pragma once

#include <span>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"

namespace shardweld::formats::deepspeed {

/// Row-major positions [begin, end) of a parameter as its rank has it, and where they are stored.
struct FlatRun {
    Index begin = 0;
    Index end = 0;
    const Shard* shard = nullptr;  ///< flat; nullptr where the file is missing
    Index at = 0;                  ///< of the first of them in the shard
    Index rank = 0;                ///< the data-parallel rank that has or had it
};

/// Flat tensors that follow one another: all ranks' partitions of one group (ZeRO-1 and 2), or all
/// sub-groups of one rank (ZeRO-3).
class FlatLine {
  public:
    /// `shard` may be null: then only its length is known.
    void append(const Shard* shard, Index length, Index rank);

    [[nodiscard]] Index length() const { return ends_.empty() ? 0 : ends_.back(); }
    /// Appends the runs of [at, at + count), which is inside: positions of a parameter from `begin`
    /// on.
    void find(Index at, Index count, Index begin, std::vector<FlatRun>& runs) const;

  private:
    std::vector<Index> ends_;
    std::vector<const Shard*> shards_;
    std::vector<Index> ranks_;
};

/// Part of a rank's local tensor: the elements from `local` on lie from `global` on in the whole
/// one.
struct LocalBox {
    std::vector<Index> global;
    std::vector<Index> local;
    std::vector<Index> extent;
    std::uint32_t replica = 0;  ///< 0: no lower rank has it
};

/// The elements of `run` as pieces of the whole tensor, one or more for each box that they meet.
/// `shape`: the local one.
void add_pieces(const FlatRun& run, std::span<const Index> shape, std::span<const LocalBox> boxes,
                std::uint32_t copy, std::vector<Piece>& pieces);

/// The elements of a local tensor that lies in one piece, likewise.
void add_pieces(const Piece& whole, std::span<const LocalBox> boxes, std::uint32_t copy,
                std::vector<Piece>& pieces);

/// Elements [begin, end) in row-major order of a tensor, which lie one after the other from `first`
/// on.
std::vector<Piece> pieces_of_range(const Piece& first, std::span<const Index> shape, Index begin,
                                   Index end);

}  // namespace shardweld::formats::deepspeed
