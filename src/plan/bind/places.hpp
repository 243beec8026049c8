// Where elements of stored tensors stand in the model's, by the lines that bind goes by. What is
// added to a weight before it is written is cut so (adapters).
#pragma once

#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// A tensor of the model, and which of its elements are elements of stored tensors.
struct TensorPlaces {
    std::string name;
    std::vector<Index> shape;
    std::vector<Operand> operands;  ///< `file` is the number of a stored tensor
};

/// The places of all stored tensors in the model's.
struct Places {
    std::vector<TensorPlaces> tensors;
    /// By stored tensor: its line, null where it passes without one, and how many elements of it
    /// the model has.
    struct Stored {
        const models::Line* line = nullptr;
        Index n_placed = 0;
    };
    std::vector<Stored> stored;
};

/// Unlike bind it needs nothing more than what is given. Tensors without a line are the model's as
/// they are. Error(mismatch) for a shape that a line does not have. The lines are the model's.
Places places_of(const std::vector<catalogue::Tensor>& stored, const Model& model);

}  // namespace shardweld::plan
