// The plain C interface between the program and its libtorch module, which is built apart as C++17.
// Includes nothing of either side, so that both compile it.
#pragma once

#include <cstdint>

extern "C" {

/// Element types as both sides number them.
enum shardweld_torch_type : std::int32_t {
    shardweld_torch_f32 = 0,
    shardweld_torch_f64 = 1,
    shardweld_torch_f16 = 2,
    shardweld_torch_bf16 = 3,
};

/// Raised with every change of this file; the loader refuses a module of another number.
inline constexpr std::int32_t kShardweldTorchAbi = 1;

using shardweld_torch_abi_function = std::int32_t();

/// libtorch's version, "1.13.0".
using shardweld_torch_version_function = const char*();

/// Casts `n` elements with libtorch. 0, or 1 with a text in shardweld_torch_error().
using shardweld_torch_convert_function = std::int32_t(std::int32_t from, const void* src,
                                                      std::int32_t to, void* dst, std::int64_t n);

/// torch.allclose(a, b, rtol, atol, equal_nan=True) over `n` elements: 1 close, 0 not, -1 with a
/// text in shardweld_torch_error().
using shardweld_torch_all_close_function = std::int32_t(std::int32_t type, const void* a,
                                                        const void* b, std::int64_t n,
                                                        const double* rtol_atol);

/// What the last call of this thread that failed has to say.
using shardweld_torch_error_function = const char*();
}
