// The HDF5 module, loaded when files of that format are to be made.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/process/shared_object.hpp"
#include "hdf5/abi.hpp"
#include "outputs/output.hpp"

namespace shardweld::outputs {

/// The dataset that holds config.json; a file's header is its text.
inline constexpr const char* kConfigDataset = "__config__";

/// `offsets`: of the file's tensors in its order, then of the header. Error(io) unless they all lie
/// inside the file and apart from each other.
void place_datasets(Placement& placement, std::size_t file, const OutputTensors& tensors,
                    std::span<const Bytes> offsets, Bytes file_size);

/// The loaded module, and its functions.
class Hdf5Module {
  public:
    /// Error(unsupported) when this build has no HDF5, saying how to get it.
    static Hdf5Module load();

    using Structure =
        std::unique_ptr<const shardweld_hdf5_structure, shardweld_hdf5_release_function*>;

    /// The structure of an HDF5 file for `file`, in memory. Error(internal) with the library's
    /// reason; std::bad_alloc.
    [[nodiscard]] Structure make(const PlacedFile& file, const OutputTensors& tensors) const;

  private:
    explicit Hdf5Module(const SharedObject& library);

    shardweld_hdf5_make_function* make_;
    shardweld_hdf5_release_function* release_;
    shardweld_hdf5_error_function* error_;
};

}  // namespace shardweld::outputs
