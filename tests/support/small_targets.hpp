// What journals are tested with.
#pragma once

#include <vector>

#include "shardweld/plan/plan.hpp"

namespace shardweld::test {

/// Tensors of 2.5 MiB, 12 bytes and 1 MiB, all read from file 0; on the line the small one comes
/// first.
inline std::vector<plan::Target> small_targets() {
    constexpr Index kMiB = Index{1} << 20U;
    std::vector<plan::Target> targets;
    const auto add = [&](const char* name, DType dtype, Index n) {
        plan::Target& target = targets.emplace_back();
        target.name = name;
        target.stored = target.dtype = dtype;
        target.shape = {n};
        layout::Copy copy;
        copy.loops = {{n, 1, 1}};
        target.operands.push_back({0, 0, copy});
    };
    add("a", DType::bf16, 5 * kMiB / 4);
    add("b", DType::f32, 3);
    add("c", DType::bf16, kMiB / 2);
    return targets;
}

/// A plan of one rank for them.
inline plan::Plan small_plan() {
    return plan::make_plan(small_targets(), {{"file", 1 << 30}}, plan::Visibility::everywhere(1, 1),
                           {});
}

}  // namespace shardweld::test
