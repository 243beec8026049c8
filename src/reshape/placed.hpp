// What all forms of a training checkpoint share: where a written tensor's pieces are, and boxes of
// parts of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layout/box.hpp"
#include "models/pattern.hpp"
#include "models/recipe.hpp"
#include "outputs/training.hpp"
#include "plan/pieces.hpp"

namespace shardweld::models {
class Symbols;
}  // namespace shardweld::models

namespace shardweld::reshape {

/// A tensor that is written, and its pieces.
struct PlacedTensor {
    std::vector<Index> whole;  ///< its shape
    std::vector<plan::TensorPiece> pieces;
};

/// A form of training checkpoint, for one model.
struct Arrangement {
    plan::PiecesOf pieces;
    /// Makes a weight's piece one of a state of the optimizer: another path, perhaps another file.
    /// Null where the form has no place for states. Pure.
    std::function<void(const std::string& state, plan::TensorPiece& piece)> in_state = {};
    bool has_masters_as_weights =
        false;  ///< the fp32 masters have no other place than the weights'
    /// What the container's writer gets, of all tensors that are written: its tensors are named by
    /// plan::piece_name. Pure.
    std::function<outputs::TrainingSave(const std::vector<PlacedTensor>&)> save;
};

/// The rank's rows as torch cuts them: ceil(rows / world) for each rank, fewer or none for the last
/// ones.
layout::Range rows_of_rank(Index rows, Index rank, Index world);

/// The line's name for these values.
std::string name_of(const models::Line& line, const models::Captures& captures,
                    const models::Symbols& symbols);

/// Whether a model of transformers holds the tensor as a buffer, which FSDP does not shard.
bool is_buffer(const models::Line& line);

/// Tensors as the container's writer knows them.
void add_tensors(const std::vector<PlacedTensor>& placed, outputs::TrainingSave& save);

}  // namespace shardweld::reshape
