#include "torch_oracle.hpp"

#include <array>
#include <cstddef>

#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/from_blob.h>

namespace shardweld::test {

namespace {

/// A view on the caller's memory. libtorch has no constant tensors: nothing here writes to a
/// source.
at::Tensor view(const void* data, TorchType type, std::int64_t n) {
    constexpr std::array<at::ScalarType, 4> kTypes{at::kFloat, at::kDouble, at::kHalf,
                                                   at::kBFloat16};
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    return at::from_blob(const_cast<void*>(data), {n},
                         at::TensorOptions(kTypes.at(static_cast<std::size_t>(type))));
}

}  // namespace

void torch_convert(TorchType from, const void* src, TorchType to, void* dst, std::int64_t n) {
    view(dst, to, n).copy_(view(src, from, n));
}

bool torch_all_close(TorchType type, const void* a, const void* b, std::int64_t n, double relative,
                     double absolute) {
    return at::allclose(view(a, type, n), view(b, type, n), relative, absolute,
                        /*equal_nan=*/true);
}

}  // namespace shardweld::test
