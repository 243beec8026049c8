// Comparing what is stored twice: the same elements, or a weight and the fp32 master that rounds to
// it.
#pragma once

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "layout/copy.hpp"

namespace shardweld::execute {

/// Elements of a replica that differ from the target's.
struct Difference {
    std::uint32_t target = 0;
    std::uint32_t replica = 0;  ///< index into the target's replicas
    Index n_elements = 0;       ///< that differ, in the part compared
};

/// The types of two sides that are compared. Where they differ, the f32 of the two is rounded to
/// the other, as numeric::convert does it.
struct ComparedTypes {
    DType src = DType::f32;
    DType dst = DType::f32;
};

/// Number of elements of the copy's nest in which the sides differ, once they are of one type. A
/// NaN is like any other: torch (2.15) casts one to other bits in a dense tensor than in a strided
/// one.
Index count_unlike(const layout::Copy& copy, const ComparedTypes& types, ByteView src,
                   ByteView dst);

}  // namespace shardweld::execute
