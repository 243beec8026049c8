// Whether the files of a legacy checkpoint can be what their places say, by what they hold: which
// tensors stand at a pipeline's ends, and that the ranks of one stage hold tensors of the same
// names.
#pragma once

#include <optional>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "io/input_file.hpp"

namespace shardweld::formats::megatron {

/// Some bytes of some of the file's tensors as one number, where these have no CRC-32s (pre-zip
/// files); nullopt where they have. Local. Error(io).
std::optional<Index> sample_of(const io::InputFile& input, const std::vector<Shard>& shards);

/// Shards of different places hold different parts: Error(mismatch) naming two files whose tensors
/// are all equal by their CRC-32s or samples (sample_of). `shards` with local layer numbers;
/// `places` and `samples` by file.
void require_own_tensors(const std::vector<Shard>& shards, const std::vector<File>& files,
                         const std::vector<Coordinates>& places,
                         const std::vector<std::optional<Index>>& samples);

/// No layer comes before the word embedding or behind the final norm of its stack:
/// Error(mismatch) naming the two files.
void require_ends(const std::vector<Shard>& shards, const std::vector<File>& files);

/// All tensor- and expert-parallel ranks of a stage build the same modules. Error(not_found) naming
/// a tensor that one file of a stage has and another lacks; `places` are those of `files`.
void require_same_names(const std::vector<Shard>& shards, const std::vector<File>& files,
                        const std::vector<Coordinates>& places);

}  // namespace shardweld::formats::megatron
