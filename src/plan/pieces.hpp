// A written tensor as the ranks of a training run hold it: in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/lists.hpp"
#include "core/optional_box.hpp"
#include "core/shared_list.hpp"
#include "core/shared_string.hpp"
#include "core/shared_text.hpp"
#include "core/text.hpp"
#include "layout/box.hpp"
#include "models/recipe.hpp"

namespace shardweld::plan {

/// A box of a tensor in one place of a training checkpoint.
struct TensorPiece {
    SharedText file;  ///< below the output's directory; "": settled by the sizes of all pieces
    SharedList<SharedText> path;  ///< keys that lead to it in the file, its own name last
    layout::Box box;              ///< of the whole tensor
    Index stack = 0;              ///< its tensor holds so many: `box` begins with which one it is
    bool is_copy = false;         ///< another piece holds these elements too: they count once
    bool is_plain = false;        ///< no DTensor among DTensors: a buffer, whole on every rank

    /// Where its elements lie, row-major, in the checkpoint that is the template of this one.
    struct InTemplate {
        std::uint32_t file = 0;  ///< of those that are read
        Bytes base = 0;
        DType dtype = DType::f32;
    };
    /// It is written in the template's type; its padding is the template's, if nothing is cast.
    OptionalBox<InTemplate> in_template = {};
    std::uint32_t number = 0;  ///< among all that the form was asked for, from 1; 0: not counted
};

/// "[0, 24]": where a box begins.
template <typename Ranges>
std::string corner_text(const Ranges& box) {
    const auto lo_of = [](const layout::Range& range) { return std::to_string(range.lo); };
    return "[" + joined(box, ", ", lo_of) + "]";
}

/// A name that no other piece of the checkpoint has: file and path, and where the box begins if the
/// file is not settled. Pieces by the thousand have the first part, or the second.
template <typename Piece>
std::pair<std::string, std::string> piece_name_parts(const Piece& piece) {
    std::string path;
    for (std::string_view between; const SharedText& key : piece.path) {
        path.append(between).append(key.text());
        between = ".";
    }
    if (piece.file.empty()) {
        return {path + "[", corner_text(piece.box).substr(1)};
    }
    return {piece.file.text() + ":", std::move(path)};
}
template <typename Piece>
std::string piece_name(const Piece& piece) {
    const auto [front, rest] = piece_name_parts(piece);
    return front + rest;
}
/// In the memory that the parts have already.
inline SharedName shared_piece_name(const TensorPiece& piece, RecentStrings& known) {
    const auto [front, rest] = piece_name_parts(piece);
    return {shared_among(known, front), shared_among(known, rest)};
}

/// The pieces of the tensor that a line stands for: `line.join` says how ranks cut it, the captures
/// which layer and expert it belongs to, `shape` how large it is. A tensor that passes as it is
/// stored has a line with its name alone. Pure. Error(mismatch) where a
/// size is not divisible by its number of ranks.
using PiecesOf = std::function<std::vector<TensorPiece>(
    const models::Line& line, const models::Captures& captures, const std::vector<Index>& shape)>;

}  // namespace shardweld::plan
