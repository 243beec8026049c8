#include "dtype.hpp"

#include <array>

#include "shardweld/error.hpp"

namespace shardweld {

namespace {

struct DTypeFacts {
    DType dtype;
    Bytes size;
    std::string_view safetensors;
    std::string_view torch;
    bool is_float;
};

// In the order of the enumeration. Names: safetensors 0.8 tensor.rs (Dtype); torch 2.15 dtypes.
constexpr auto kFacts = std::to_array<DTypeFacts>({
    {DType::boolean, 1, "BOOL", "bool", false},
    {DType::u8, 1, "U8", "uint8", false},
    {DType::i8, 1, "I8", "int8", false},
    {DType::u16, 2, "U16", "uint16", false},
    {DType::i16, 2, "I16", "int16", false},
    {DType::u32, 4, "U32", "uint32", false},
    {DType::i32, 4, "I32", "int32", false},
    {DType::u64, 8, "U64", "uint64", false},
    {DType::i64, 8, "I64", "int64", false},
    {DType::f8_e4m3, 1, "F8_E4M3", "float8_e4m3fn", true},
    {DType::f8_e5m2, 1, "F8_E5M2", "float8_e5m2", true},
    {DType::f8_e8m0, 1, "F8_E8M0", "float8_e8m0fnu", false},
    {DType::f8_e4m3fnuz, 1, "F8_E4M3FNUZ", "float8_e4m3fnuz", true},
    {DType::f8_e5m2fnuz, 1, "F8_E5M2FNUZ", "float8_e5m2fnuz", true},
    {DType::f16, 2, "F16", "float16", true},
    {DType::bf16, 2, "BF16", "bfloat16", true},
    {DType::f32, 4, "F32", "float32", true},
    {DType::f64, 8, "F64", "float64", true},
    {DType::c64, 8, "C64", "complex64", false},
});

const DTypeFacts& facts_of(DType dtype) {
    const auto at = static_cast<std::size_t>(dtype);
    if (at >= kFacts.size()) {
        throw Error(ErrorCode::internal, "an element type out of range");
    }
    return kFacts[at];
}

}  // namespace

Bytes size_of(DType dtype) {
    return facts_of(dtype).size;
}

std::string safetensors_name(DType dtype) {
    return std::string(facts_of(dtype).safetensors);
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
    for (const DTypeFacts& facts : kFacts) {
        if (facts.safetensors == name) {
            return facts.dtype;
        }
    }
    return std::nullopt;
}

std::string torch_name(DType dtype) {
    return std::string(facts_of(dtype).torch);
}

std::optional<DType> dtype_from_torch(std::string_view name) {
    for (const DTypeFacts& facts : kFacts) {
        if (facts.torch == name) {
            return facts.dtype;
        }
    }
    return std::nullopt;
}

bool is_float(DType dtype) {
    return facts_of(dtype).is_float;
}

}  // namespace shardweld
