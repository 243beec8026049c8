// libtorch's casts and its closeness, as an oracle for ours. Includes nothing of either side: the
// source is compiled as C++17, which every compiler takes with libtorch's headers.
#pragma once

#include <cstdint>

namespace shardweld::test {

enum class TorchType : std::uint8_t { f32, f64, f16, bf16 };

/// Casts `n` elements with libtorch's rounding and NaNs.
void torch_convert(TorchType from, const void* src, TorchType to, void* dst, std::int64_t n);

/// torch.allclose(a, b, relative, absolute, equal_nan=True) over `n` elements.
bool torch_all_close(TorchType type, const void* a, const void* b, std::int64_t n, double relative,
                     double absolute);

}  // namespace shardweld::test
