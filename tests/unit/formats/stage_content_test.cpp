#include "formats/megatron/stage_content.hpp"

#include "catalogue/tensor.hpp"

#include "scratch.hpp"

namespace shardweld::formats::megatron {
namespace {

using catalogue::Coordinates;
using catalogue::File;
using catalogue::Shard;

const std::vector<File> kFiles = {{"mp_rank_00_000/a.pt", 1}, {"mp_rank_00_001/a.pt", 1}};

const std::vector<std::optional<Index>> kNoSamples(2);

Shard shard(const std::string& name, std::uint32_t file, std::uint32_t crc32,
            const Coordinates& at = {}) {
    Shard shard{name, DType::f32, {1}, at, {}};
    shard.piece.file = file;
    shard.piece.crc32 = crc32;
    return shard;
}

TEST(StageContent, of_two_ranks_is_never_the_same) {
    const std::vector<Shard> copied = {shard("a", 0, 7), shard("b", 0, 8), shard("a", 1, 7),
                                       shard("b", 1, 8)};
    expect_error(
        ErrorCode::mismatch,
        "mp_rank_00_000/a.pt and mp_rank_00_001/a.pt hold the same bytes in all their 2 "
        "tensors",
        [&] {
            require_own_tensors(copied, kFiles, {Coordinates{0}, Coordinates{1}}, kNoSamples);
        });
    // Copies of a data-parallel rank, and ranks of an expert group without experts.
    require_own_tensors(copied, kFiles, {Coordinates{0}, Coordinates{0}}, kNoSamples);
    require_own_tensors(copied, kFiles, {Coordinates{0, 0, 0, 0}, Coordinates{0, 0, 0, 1}},
                        kNoSamples);
    require_own_tensors({shard("a", 0, 7), shard("b", 0, 8), shard("a", 1, 7), shard("b", 1, 9)},
                        kFiles, {Coordinates{0}, Coordinates{1}}, kNoSamples);
    require_own_tensors({shard("a", 0, 0), shard("a", 1, 0)}, kFiles,
                        {Coordinates{0}, Coordinates{1}}, kNoSamples);
    expect_error(ErrorCode::mismatch, "hold the same bytes in all their 1 tensors", [&] {
        require_own_tensors({shard("a", 0, 0), shard("a", 1, 0)}, kFiles,
                            {Coordinates{0}, Coordinates{1}}, {Index{5}, Index{5}});
    });
    expect_error(ErrorCode::mismatch, "hold the same bytes", [&] {
        require_own_tensors({shard("mlp.experts.a", 0, 7), shard("mlp.experts.a", 1, 7)}, kFiles,
                            {Coordinates{0, 0, 0, 0}, Coordinates{0, 0, 0, 1}}, kNoSamples);
    });
}

TEST(StageContent, has_the_embedding_first_and_the_norm_last) {
    const Coordinates first;
    const Coordinates second{0, 1};
    const std::string layer = "decoder.layers.0.mlp.linear_fc2.weight";
    require_ends({shard("embedding.word_embeddings.weight", 0, 1, first), shard(layer, 0, 2, first),
                  shard(layer, 1, 3, second), shard("decoder.final_layernorm.weight", 1, 4, second),
                  shard("embedding.word_embeddings.weight", 1, 1, second)},
                 kFiles);
    expect_error(ErrorCode::mismatch,
                 "mp_rank_00_001/a.pt holds the word embedding, but by its name "
                 "mp_rank_00_000/a.pt, which holds layers, stands before it",
                 [&] {
                     require_ends({shard(layer, 0, 2, first),
                                   shard("embedding.word_embeddings.weight", 1, 1, second),
                                   shard(layer, 1, 3, second)},
                                  kFiles);
                 });
    expect_error(ErrorCode::mismatch, "holds the final norm", [&] {
        require_ends(
            {shard(layer, 0, 2, first), shard("decoder.final_layernorm.weight", 0, 1, first),
             shard(layer, 1, 3, second)},
            kFiles);
    });
}

}  // namespace
}  // namespace shardweld::formats::megatron
