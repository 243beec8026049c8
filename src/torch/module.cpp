// The libtorch side of include/shardweld/numeric/torch_abi.hpp.
#include <exception>
#include <stdexcept>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/api/include/torch/version.h>

#include "numeric/torch_abi.hpp"

#define SHARDWELD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::string& last_error() {
    thread_local std::string text;
    return text;
}

at::ScalarType scalar_type(std::int32_t code) {
    switch (code) {
        case shardweld_torch_f32:
            return at::kFloat;
        case shardweld_torch_f64:
            return at::kDouble;
        case shardweld_torch_f16:
            return at::kHalf;
        case shardweld_torch_bf16:
            return at::kBFloat16;
        default:
            throw std::invalid_argument("unknown element type " + std::to_string(code));
    }
}

/// A view on the caller's memory. libtorch has no constant tensors: nothing here writes to a
/// source.
at::Tensor view(const void* data, std::int32_t type, std::int64_t n) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    return at::from_blob(const_cast<void*>(data), {n}, at::TensorOptions(scalar_type(type)));
}

/// Runs `work`; exceptions must not cross the C interface.
template <typename F>
std::int32_t guarded(std::int32_t on_failure, F&& work) {
    try {
        // Ranks share the cores already.
        at::set_num_threads(1);
        return work();
    } catch (const std::exception& error) {
        last_error() = error.what();
    } catch (...) {
        last_error() = "unknown exception";
    }
    return on_failure;
}

}  // namespace

SHARDWELD_EXPORT std::int32_t shardweld_torch_abi() {
    return kShardweldTorchAbi;
}

SHARDWELD_EXPORT const char* shardweld_torch_version() {
    return TORCH_VERSION;
}

SHARDWELD_EXPORT const char* shardweld_torch_error() {
    return last_error().c_str();
}

SHARDWELD_EXPORT std::int32_t shardweld_torch_convert(std::int32_t from, const void* src,
                                                      std::int32_t to, void* dst, std::int64_t n) {
    return guarded(1, [&] {
        view(dst, to, n).copy_(view(src, from, n));
        return 0;
    });
}

SHARDWELD_EXPORT std::int32_t shardweld_torch_all_close(std::int32_t type, const void* a,
                                                        const void* b, std::int64_t n,
                                                        const double* rtol_atol) {
    return guarded(-1, [&] {
        const bool close = at::allclose(view(a, type, n), view(b, type, n), rtol_atol[0],
                                        rtol_atol[1], /*equal_nan=*/true);
        return close ? 1 : 0;
    });
}
