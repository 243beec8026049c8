// A written tensor as the ranks of a training run hold it: in pieces.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layout/box.hpp"
#include "models/recipe.hpp"

namespace shardweld::plan {

/// A box of a tensor in one place of a training checkpoint.
struct TensorPiece {
    std::string file;               ///< below the output's directory
    std::vector<std::string> path;  ///< keys that lead to it in the file, its own name last
    layout::Box box;                ///< of the whole tensor
    bool is_copy = false;           ///< another piece holds these elements too: they count once
};

/// The pieces of the tensor that a line stands for: `line.join` says how ranks cut it, the captures
/// which layer and expert it belongs to, `shape` how large it is. Pure. Error(mismatch) where a
/// size is not divisible by its number of ranks.
using PiecesOf = std::function<std::vector<TensorPiece>(
    const models::Line& line, const models::Captures& captures, const std::vector<Index>& shape)>;

}  // namespace shardweld::plan
