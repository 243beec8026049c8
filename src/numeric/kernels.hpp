// Loops that cast a run of elements, one set per instruction set; all sets give the same bits.
#pragma once

#include <cstddef>

#include "core/dtype.hpp"

namespace shardweld::numeric {

/// Casts `n` elements; source and destination need no alignment and do not overlap.
using Kernel = void (*)(const std::byte* src, std::byte* dst, std::size_t n);

/// The conversion loops of one instruction set.
struct Kernels {
    Kernel bf16_to_f32;
    Kernel f16_to_f32;
    Kernel f32_to_bf16;
    Kernel f32_to_f16;
    Kernel f64_to_f32;
    Kernel
        f64_to_f32_odd;  ///< see scalar.hpp: rounding to odd lets a second rounding be the only one
    Kernel f32_to_f64;
};

/// Those of instruction_set().
const Kernels& best_kernels();

/// Whether the processor (and the build) has casts of f16 of its own.
bool has_f16c();
/// With these, where it has.
Kernels with_f16c(Kernels kernels);

/// convert() and add_constant() with the given kernels.
void convert_with(const Kernels& kernels, DType from, ByteView src, DType to, ByteSpan dst);
void add_constant_with(const Kernels& kernels, DType dtype, ByteSpan values, float constant);

}  // namespace shardweld::numeric
