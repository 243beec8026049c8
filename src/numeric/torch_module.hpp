// libtorch as an optional shared object, loaded when its arithmetic is asked for: the program
// itself starts without it.
#pragma once

#include <span>
#include <string>

#include "core/dtype.hpp"
#include "core/path.hpp"
#include "core/shared_object.hpp"

#include "compare.hpp"
#include "torch_abi.hpp"

namespace shardweld::numeric {

/// The functions of a loaded module. It stays in the process: libtorch cannot be unloaded.
class TorchModule {
  public:
    /// Loads the module at `path` (about half a second and 160 MiB). Error(unsupported) when it or
    /// one of its libraries cannot be loaded, or when it belongs to another version of the program.
    static TorchModule load(const fs::path& path);

    /// As above from where the build or an installation puts it: beside the running program or in
    /// ../lib/shardweld. Error(unsupported), naming both places, when there is none.
    static TorchModule load_installed();

    /// libtorch's version, e.g. "1.13.0".
    [[nodiscard]] std::string version() const;

    /// As numeric::convert with libtorch's rounding and NaNs; f32, f64, f16 and bf16 only.
    /// Error(unsupported) for other types or when libtorch refuses, Error(internal) when sizes do
    /// not fit.
    void convert(DType from, std::span<const std::byte> src, DType to,
                 std::span<std::byte> dst) const;

    /// torch.allclose with NaNs equal. Errors as convert.
    [[nodiscard]] bool all_close(DType dtype, std::span<const std::byte> a,
                                 std::span<const std::byte> b, Tolerance tolerance) const;

  private:
    explicit TorchModule(const SharedObject& library);

    shardweld_torch_version_function* version_ = nullptr;
    shardweld_torch_convert_function* convert_ = nullptr;
    shardweld_torch_all_close_function* all_close_ = nullptr;
    shardweld_torch_error_function* error_ = nullptr;
};

}  // namespace shardweld::numeric
