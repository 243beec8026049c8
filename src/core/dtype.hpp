// Element types: names, sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "index.hpp"

namespace shardweld {

/// The type of a tensor's elements.
enum class DType : std::uint8_t {
    boolean,
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    u64,
    i64,
    f8_e4m3,
    f8_e5m2,
    f8_e8m0,
    f8_e4m3fnuz,
    f8_e5m2fnuz,
    f16,
    bf16,
    f32,
    f64,
    c64,
};

/// Bytes of one element.
Bytes size_of(DType dtype);

/// Name in a safetensors header ("BF16", "F8_E4M3", ...; safetensors 0.8, tensor.rs).
std::string safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// Name as torch spells it ("bfloat16", "float8_e4m3fn", "int64", ...).
std::string torch_name(DType dtype);
std::optional<DType> dtype_from_torch(std::string_view name);

/// Floating point (real) types, which --dtype may cast.
bool is_float(DType dtype);
/// Those in which weights are trained: F32, F16 and BF16.
constexpr bool is_trained_in(DType dtype) {
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace shardweld
