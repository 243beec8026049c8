// Sums of several checkpoints' elements in fp32, in one fixed order of operations: every product,
// difference and sum is rounded by itself, none is fused. The same bits on every processor.
#pragma once

#include <span>

#include "core/dtype.hpp"

namespace shardweld::numeric {

/// Elements of one checkpoint: x = fp32(element) + add, in fp32 (f64: added in fp64, then rounded).
struct Addend {
    DType dtype = DType::f32;
    ByteView elements;
    float add = 0;
    float weight = 1;
};

/// Whether elements of this type can be added: floats of 16 bits and more.
bool can_add(DType dtype);

// All three take as many elements as `sum` has, else Error(internal); Error(unsupported) unless
// can_add(dtype).

/// sum = weight * x
void begin_sum(const Addend& addend, std::span<float> sum);

/// sum = sum + weight * x
void add_product(const Addend& addend, std::span<float> sum);

/// sum = sum + weight * (x - base); `base` may be `sum` itself.
void add_difference(const Addend& addend, std::span<const float> base, std::span<float> sum);

/// The sum rounded once to the type that is written. Which NaN two operands give is the processor's
/// choice: each becomes the positive quiet one without a payload. Requires as many elements in
/// `out`.
void round_sum(std::span<const float> sum, DType to, ByteSpan out);

}  // namespace shardweld::numeric
