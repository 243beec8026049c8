// Comparing what is stored twice: the same bytes, or a weight and the fp32 master that rounds to
// it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "layout/copy.hpp"

namespace shardweld::execute {

/// The types of two sides that are compared, where they may differ: the f32 of the two is rounded
/// to the other, as numeric::convert does it.
struct Rounding {
    DType src = DType::f32;
    DType dst = DType::f32;
};

/// Number of elements of the copy's nest in which the sides differ, once they are of one type.
/// Without types their bytes are compared, `element_bytes` of each.
Index count_unlike(const layout::Copy& copy, std::size_t element_bytes,
                   const std::optional<Rounding>& types, std::span<const std::byte> src,
                   std::span<const std::byte> dst);

}  // namespace shardweld::execute
