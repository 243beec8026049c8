// Copies into matrices that are written with rows and columns exchanged.
#pragma once

#include <vector>

#include "layout/copy.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

/// Destinations in a stack of matrices [n, rows, columns] become those in [n, columns, rows].
class Transposed {
  public:
    explicit Transposed(std::span<const Index> shape)
        : rows_(shape[1]), columns_(shape[2]), matrix_(shape[1] * shape[2]) {}

    /// Its logical patches are lost: other outputs have these elements in another order.
    void transpose(Target& target) const {
        target.logical_patches.clear();
        for (auto* operands : {&target.operands, &target.replicas}) {
            operands->change_each(
                [&](Operand& operand) { operand.copy = transposed(operand.copy); });
        }
    }

  private:
    [[nodiscard]] layout::Copy transposed(const layout::Copy& straight) const {
        layout::Copy copy;
        copy.src_offset = straight.src_offset;
        copy.dst_offset = address(straight.dst_offset);
        for (const layout::Loop& loop : straight.loops) {
            add(loop, copy);
        }
        return layout::normal(copy);
    }

    [[nodiscard]] Index address(Index at) const {
        const Index in_matrix = at % matrix_;
        return at - in_matrix + in_matrix % columns_ * rows_ + in_matrix / columns_;
    }

    /// A loop over several axes becomes one for each.
    void add(const layout::Loop& loop, layout::Copy& out) const {
        const Index axis = loop.dst_stride >= matrix_    ? 0
                           : loop.dst_stride >= columns_ ? matrix_
                                                         : columns_;
        const Index inner = axis == 0 ? loop.extent : axis / loop.dst_stride;
        if (axis != 0 && loop.extent > inner) {
            if (axis % loop.dst_stride != 0 || loop.extent % inner != 0) {
                throw Error(ErrorCode::internal, "a copy that follows no axis of its matrix");
            }
            add({loop.extent / inner, loop.src_stride * inner, axis}, out);
            add({inner, loop.src_stride, loop.dst_stride}, out);
            return;
        }
        out.loops.push_back({loop.extent, loop.src_stride, address(loop.dst_stride)});
    }

    Index rows_, columns_, matrix_;
};

}  // namespace shardweld::plan
