// The simplest target: a vector that is stored as it is.
#pragma once

#include <string>
#include <utility>

#include "plan/binding.hpp"

namespace shardweld::test {

/// `n` elements, in one run of `file` from byte `base` on.
inline plan::Target flat_target(std::string name, DType dtype, Index n, std::uint32_t file = 0,
                                Bytes base = 0) {
    plan::Target target;
    target.name = std::move(name);
    target.stored = target.dtype = dtype;
    target.shape = {n};
    layout::Copy copy;
    copy.loops = {{n, 1, 1}};
    target.operands.push_back({file, base, copy});
    return target;
}

}  // namespace shardweld::test
