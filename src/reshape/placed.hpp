// What all forms of a training checkpoint share: where a written tensor's pieces are, and boxes of
// parts of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/shared_list.hpp"
#include "core/shared_text.hpp"
#include "layout/box.hpp"
#include "models/pattern.hpp"
#include "models/recipe.hpp"
#include "outputs/training.hpp"
#include "plan/pieces.hpp"

#include "optimizer.hpp"

namespace shardweld::models {
class Symbols;
}  // namespace shardweld::models

namespace shardweld::reshape {

/// What is kept of a plan::TensorPiece, of which there may be a million.
struct PlacedPiece {
    SharedText file;
    SharedList<SharedText> path;
    SharedList<layout::Range> box = {};  ///< where Arrangement::keeps_boxes
    std::uint32_t number = 0;
    std::uint32_t target = 0;  ///< which one it is, once all are bound and in their order
    bool is_copy = false;
    bool is_plain = false;
};

PlacedPiece placed_piece(const plan::TensorPiece& piece, bool keeps_box);

/// A tensor that is written, and its pieces.
struct PlacedTensor {
    std::vector<Index> whole;  ///< its shape
    std::vector<PlacedPiece> pieces;
    std::string state = {};   ///< of the optimizer, that it is of a weight; "": the weight
    std::string weight = {};  ///< whose state it is: the name that the weight is written under
};

/// A form of training checkpoint, for one model.
struct Arrangement {
    plan::PiecesOf pieces;
    /// Makes a weight's piece one of a state of the optimizer: another path, perhaps another file.
    /// Null where the form has no place for states. Pure.
    std::function<void(const std::string& state, plan::TensorPiece& piece)> in_state = {};
    bool keeps_boxes = false;  ///< `save` asks for them
    bool has_masters_as_weights =
        false;  ///< the fp32 masters have no other place than the weights'
    /// Where the parameter's step lies as a tensor of its own, beside the piece of a moment;
    /// nullopt: nothing beside this one. Null where no parameter has one.
    std::function<std::optional<PlacedPiece>(const PlacedPiece& moment)> step_beside = {};
    /// What the form cannot say of the optimizer's groups, for people; "": it says all. Null: so it
    /// always does. Error(unsupported) as by `save`.
    std::function<std::string(const OptimizerToWrite&, const std::vector<Parameter>&)> lost = {};
    /// What the container's writer gets, of all tensors that are written, of which each piece knows
    /// its target. `optimizer`: of their states; null where there are none. Pure.
    std::function<outputs::TrainingSave(std::vector<PlacedTensor>,
                                        const OptimizerToWrite* optimizer)>
        save;
};

/// The rank's rows as torch cuts them: ceil(rows / world) for each rank, fewer or none for the last
/// ones.
layout::Range rows_of_rank(Index rows, Index rank, Index world);

/// The line's name for these values.
std::string name_of(const models::Line& line, const models::Captures& captures,
                    const models::Symbols& symbols);

/// Whether a model of transformers holds the tensor as a buffer, which FSDP does not shard.
bool is_buffer(const models::Line& line);

/// The name of the state that is a parameter's step.
inline constexpr const char* kStep = "step";

/// Parameters with states, each once, in the order of their names.
std::vector<Parameter> parameters_of(const std::vector<PlacedTensor>& placed);

/// Tensors as the container's writer knows them.
void add_tensors(std::vector<PlacedTensor> placed, outputs::TrainingSave& save);

}  // namespace shardweld::reshape
