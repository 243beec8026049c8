// What journals are tested with.
#pragma once

#include <vector>

#include "plan/plan.hpp"
#include "plan/visibility.hpp"
#include "support/flat_target.hpp"

namespace shardweld::test {

/// Tensors of 2.5 MiB, 12 bytes and 1 MiB, all read from file 0; on the line the small one comes
/// first.
inline std::vector<plan::Target> small_targets() {
    constexpr Index kMiB = Index{1} << 20U;
    return {flat_target("a", DType::bf16, 5 * kMiB / 4), flat_target("b", DType::f32, 3),
            flat_target("c", DType::bf16, kMiB / 2)};
}

/// A plan of one rank for them.
inline plan::Plan small_plan() {
    return plan::make_plan(small_targets(), {{"file", 1 << 30}}, plan::Visibility::everywhere(1, 1),
                           {});
}

}  // namespace shardweld::test
