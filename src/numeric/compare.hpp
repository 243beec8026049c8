// How far apart two runs of elements are, in the sense of torch.allclose.
#pragma once

#include <optional>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld::numeric {

/// Two elements are close when |a - b| <= absolute + relative * |b|; b is the reference.
struct Tolerance {
    double relative = 1e-5;
    double absolute = 1e-8;
};

/// The largest of some errors and where it is; ties go to the lowest index.
struct Largest {
    double error = 0;  ///< infinity where only one of the two is a NaN or an infinity
    Index at = -1;     ///< index of the element; -1: all errors are 0

    void add(const Largest& other);
    friend bool operator==(const Largest&, const Largest&) = default;
};

/// What was found in the elements compared so far. Adding parts gives the same in any order.
struct Comparison {
    Index n_elements = 0;
    Index n_unequal_bits = 0;  ///< elements whose bytes differ
    Index n_different = 0;     ///< elements that are not close
    Index n_nan = 0;           ///< of these, elements that are a NaN on one side only
    Largest absolute;          ///< |a - b|
    Largest relative;          ///< |a - b| / |b|

    void add(const Comparison& other);
    friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// Compares `a` with the reference `b`, both of `dtype`; the first element has index `first`.
/// Floats and complex numbers are subtracted in fp64; NaNs equal NaNs and infinities equal
/// themselves. Integers and booleans are close only when equal. Error(internal) when the sizes
/// differ or hold a fraction of an element.
Comparison compare(DType dtype, ByteView a, ByteView b, Tolerance tolerance, Index first = 0);

/// The type in which elements of two types are compared: the type itself when they are equal, the
/// less precise one of f64, f32, f16 and bf16 (in this order); nullopt when there is none.
std::optional<DType> common_dtype(DType a, DType b);

}  // namespace shardweld::numeric
