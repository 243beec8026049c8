// One file of a delta: the tensors of a part of the model that have changed, as the zstd of the XOR
// of their bytes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "app/compare/model_directory.hpp"
#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::app {

/// Two models of the same tensors, in the order of their names.
struct ModelPair {
    fs::path old_directory;
    fs::path new_directory;
    WrittenModel old_model;
    WrittenModel new_model;
};

/// Error(mismatch) naming the first tensor that only one of both has, or that is of another dtype
/// or shape, and how many there are. Pure.
void require_same_tensors(const ModelPair& pair);

/// Tensors from `first` up to `last`.
struct TensorRange {
    std::size_t first = 0;
    std::size_t last = 0;
};

/// The parts of a model that become files: at most about 128, of at least 64 MiB. They are cut by
/// the tensors' bytes alone, so that any number of ranks writes the same files. Pure.
std::vector<TensorRange> parts_of(const WrittenModel& model);
/// How many bytes the tensors of a part have. Pure.
Bytes bytes_of(const WrittenModel& model, TensorRange part);

/// Is told before bytes are moved from or to the disk, how many, and how many of the new model are
/// looked at with them for the first time. It may throw, which ends the work.
using OnPiece = std::function<void(Bytes moved, Bytes compared)>;

/// What was found of a tensor.
struct DeltaTensor {
    std::string name;
    std::string old_digest;  ///< xxh3-128, hex
    std::string new_digest;
    Bytes stored = 0;  ///< bytes of the zstd in the file; 0: it has not changed

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.old_digest, self.new_digest, self.stored);
    };
};

/// What became of a part.
struct DeltaFile {
    std::vector<DeltaTensor> tensors;  ///< all of the part
    Bytes size = 0;                    ///< of the file; 0: nothing has changed, and there is none

    static constexpr auto fields = [](auto& self) { return std::tie(self.tensors, self.size); };
};

/// Writes the file of a part to `path`, waits until it is on the disk, reads it back and proves
/// that it makes the new model of the old one; writes none where nothing has changed. Local.
/// Error(corrupt), Error(io), Error(space).
DeltaFile write_delta_file(const ModelPair& pair, TensorRange part, const fs::path& path,
                           const OnPiece& on_piece);

/// Whether the new tensors of a part are those of these digests, by name, and the old ones where
/// there is no digest. Local. Error(io).
bool is_as_listed(const ModelPair& pair, TensorRange part,
                  const std::map<std::string, std::string>& digest_of, const OnPiece& on_piece);

}  // namespace shardweld::app
