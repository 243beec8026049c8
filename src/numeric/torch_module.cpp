#include "shardweld/numeric/torch_module.hpp"

#include <array>
#include <optional>
#include <system_error>

#include <dlfcn.h>

#include "shardweld/core/error.hpp"

namespace shardweld::numeric {

namespace {

constexpr const char* kFileName = "shardweld_torch.so";

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorCode::unsupported,
                what + "; build shardweld with -DSHARDWELD_TORCH=ON where libtorch is installed");
}

/// A function of the module; `F` is its type in torch_abi.hpp.
template <typename F>
F* function_in(void* library, const char* name) {
    void* address = dlsym(library, name);
    if (address == nullptr) {
        refuse(std::string("the libtorch module has no function ") + name);
    }
    return reinterpret_cast<F*>(address);
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

TorchModule TorchModule::load(const std::filesystem::path& path) {
    // Local: libtorch brings hundreds of libraries whose names must not meet the program's.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* reason = dlerror();
        refuse("cannot load the libtorch module " + path.string() + ": " +
               (reason != nullptr ? reason : "unknown reason"));
    }
    const auto abi = function_in<shardweld_torch_abi_function>(library, "shardweld_torch_abi")();
    if (abi != kShardweldTorchAbi) {
        refuse("the libtorch module " + path.string() + " has interface " + std::to_string(abi) +
               ", this program needs " + std::to_string(kShardweldTorchAbi));
    }
    TorchModule module;
    module.version_ =
        function_in<shardweld_torch_version_function>(library, "shardweld_torch_version");
    module.convert_ =
        function_in<shardweld_torch_convert_function>(library, "shardweld_torch_convert");
    module.all_close_ =
        function_in<shardweld_torch_all_close_function>(library, "shardweld_torch_all_close");
    module.error_ = function_in<shardweld_torch_error_function>(library, "shardweld_torch_error");
    return module;
}

TorchModule TorchModule::load_installed() {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) {
        refuse("cannot tell where the program lies (/proc/self/exe: " + error.message() + ")");
    }
    const auto folder = program.parent_path();
    const auto beside = folder / kFileName;
    const auto installed = folder.parent_path() / "lib" / "shardweld" / kFileName;
    for (const auto& path : {beside, installed}) {
        if (std::filesystem::exists(path, error)) {
            return load(path);
        }
    }
    refuse("no libtorch module, neither " + beside.string() + " nor " + installed.string());
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
