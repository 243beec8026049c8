#include "torch_module.hpp"

#include <array>
#include <optional>

#include "shardweld/error.hpp"

namespace shardweld::numeric {

namespace {

SharedObject::About about() {
    return {"the libtorch module",
            "build shardweld with -DSHARDWELD_TORCH=ON where libtorch is installed"};
}

std::optional<shardweld_torch_type> code_of(DType dtype) {
    if (dtype == DType::f32) {
        return shardweld_torch_f32;
    }
    if (dtype == DType::f64) {
        return shardweld_torch_f64;
    }
    if (dtype == DType::f16) {
        return shardweld_torch_f16;
    }
    return dtype == DType::bf16 ? std::optional(shardweld_torch_bf16) : std::nullopt;
}

shardweld_torch_type require_code(DType dtype) {
    const auto code = code_of(dtype);
    if (!code) {
        throw Error(ErrorCode::unsupported,
                    "the libtorch module takes float32, float64, float16 and "
                    "bfloat16, not " +
                        std::string(torch_name(dtype)));
    }
    return *code;
}

/// Elements of `dtype` in `bytes`, which must be whole.
std::size_t count_of(DType dtype, std::size_t bytes) {
    if (bytes % size_of(dtype) != 0) {
        throw Error(ErrorCode::internal, std::to_string(bytes) + " bytes hold no whole number of " +
                                             std::string(torch_name(dtype)) + " elements");
    }
    return bytes / size_of(dtype);
}

void require_equal_counts(std::size_t a, std::size_t b) {
    if (a != b) {
        throw Error(ErrorCode::internal, "libtorch module: " + std::to_string(a) +
                                             " elements against " + std::to_string(b));
    }
}

}  // namespace

TorchModule TorchModule::load(const fs::path& path) {
    return TorchModule(SharedObject::load(path, about()));
}

TorchModule TorchModule::load_installed() {
    return TorchModule(SharedObject::load_installed("shardweld_torch.so", about()));
}

TorchModule::TorchModule(const SharedObject& library) {
    library.require_abi(library.function<shardweld_torch_abi_function>("shardweld_torch_abi")(),
                        kShardweldTorchAbi);
    version_ = library.function<shardweld_torch_version_function>("shardweld_torch_version");
    convert_ = library.function<shardweld_torch_convert_function>("shardweld_torch_convert");
    all_close_ = library.function<shardweld_torch_all_close_function>("shardweld_torch_all_close");
    error_ = library.function<shardweld_torch_error_function>("shardweld_torch_error");
}

std::string TorchModule::version() const {
    return version_();
}

void TorchModule::convert(DType from, std::span<const std::byte> src, DType to,
                          std::span<std::byte> dst) const {
    const auto from_code = require_code(from);
    const auto to_code = require_code(to);
    const std::size_t n = count_of(from, src.size());
    require_equal_counts(n, count_of(to, dst.size()));
    if (convert_(from_code, src.data(), to_code, dst.data(), static_cast<std::int64_t>(n)) != 0) {
        throw Error(ErrorCode::unsupported, std::string("libtorch refuses the cast: ") + error_());
    }
}

bool TorchModule::all_close(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                            Tolerance tolerance) const {
    const auto code = require_code(dtype);
    const std::size_t n = count_of(dtype, a.size());
    require_equal_counts(n, count_of(dtype, b.size()));
    const std::array<double, 2> limits{tolerance.relative, tolerance.absolute};
    const auto close =
        all_close_(code, a.data(), b.data(), static_cast<std::int64_t>(n), limits.data());
    if (close < 0) {
        throw Error(ErrorCode::unsupported,
                    std::string("libtorch refuses the comparison: ") + error_());
    }
    return close == 1;
}

}  // namespace shardweld::numeric
