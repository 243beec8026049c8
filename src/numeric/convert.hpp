// Casts between floating point types: every result is the source value rounded once, to nearest
// even.
#pragma once

#include "core/dtype.hpp"

namespace shardweld::numeric {

/// Whether convert() takes this pair: f32, f64, f16 and bf16 among each other, f8_e4m3, f8_e5m2 and
/// their fnuz forms (as sources only) to any of the four, and every type to itself.
bool can_convert(DType from, DType to);

/// Casts `src` element by element into `dst`. Results are the same bits on every processor:
/// - nearest even, overflow to infinity, subnormals kept, signed zeros kept, no intermediate
/// rounding
///   (f64 to f16 and bf16 too);
/// - a NaN keeps its sign. In f16 and bf16 it is the default quiet NaN (0x7E00, 0x7FC0). In f32 and
/// f64
///   it is quiet and keeps the leading bits of its payload; bf16 to f32 alone is a plain shift, so
///   that a signalling NaN stays one.
/// A type to itself is a copy. Spans need no alignment and must not overlap.
/// Error(unsupported) unless can_convert(from, to); Error(internal) when the sizes do not fit.
void convert(DType from, ByteView src, DType to, ByteSpan dst);

/// Adds `constant` to every element, in fp32 (f64: in fp64), and rounds the sum once to the
/// element's type. For f32, f64, f16 and bf16; Error(unsupported) else, Error(internal) when
/// `values` holds a fraction of an element.
void add_constant(DType dtype, ByteSpan values, float constant);

/// Both, with the sum in the wider of both types: it is rounded once, to `to`. `src` stays as it
/// is.
void add_and_convert(DType from, ByteView src, float constant, DType to, ByteSpan dst);

}  // namespace shardweld::numeric
