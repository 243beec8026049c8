// What every target holds its code to: an Error that is no internal one, or a result that is sound.
// Knows errors and pieces; knows no format.
#pragma once

#include <cstdint>
#include <span>

#include "catalogue/tensor.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

namespace shardweld::fuzz {

inline void require(bool is_sound) {
    if (!is_sound) {
        __builtin_trap();
    }
}

/// Runs `action`; Error is an answer, everything else a finding.
template <typename Action>
void expect_errors_only(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        require(error.code() != ErrorCode::internal);
    }
}

/// A piece of a tensor of `shape` in a file of `file_size` bytes: inside the tensor, and every
/// address inside its storage, and that inside the file.
inline void require_inside(const catalogue::Piece& piece, std::span<const Index> shape, DType dtype,
                           Bytes file_size) {
    const auto& axes = piece.patch.axes;
    require(axes.size() == shape.size());
    require(piece.base <= file_size && piece.storage_bytes <= file_size - piece.base);
    for (std::size_t k = 0; k < axes.size(); ++k) {
        require(axes[k].lo >= 0 && axes[k].lo <= shape[k]);
        require(axes[k].extent >= 0 && axes[k].extent <= shape[k] - axes[k].lo);
    }
    if (piece.patch.volume() > 0) {
        const auto span = layout::address_span(piece.patch);
        const Bytes end =
            checked_mul_bytes(static_cast<Bytes>(span.lo + span.extent), size_of(dtype), "a piece");
        require(span.lo >= 0 && end <= piece.storage_bytes);
    }
}

}  // namespace shardweld::fuzz
