// The HDF5 module, loaded when files of that format are to be made. Knows its interface only.
#pragma once

#include <filesystem>
#include <vector>

#include "shardweld/core/shared_object.hpp"
#include "shardweld/hdf5/abi.hpp"
#include "shardweld/outputs/output.hpp"

namespace shardweld::execute {

class Hdf5Module {
  public:
    /// Error(unsupported) when this build has no HDF5, saying how to get it.
    static Hdf5Module load();

    /// Whether the library can make a file by all ranks together.
    [[nodiscard]] bool is_parallel() const { return is_parallel_() != 0; }

    /// Makes an HDF5 file for `file` at `path`; with `together` all ranks of the program call this.
    /// Error(io) with the library's reason.
    [[nodiscard]] outputs::RawOffsets create(const std::filesystem::path& path,
                                             const outputs::OutputFile& file,
                                             const std::vector<outputs::OutputTensor>& tensors,
                                             bool together) const;

  private:
    explicit Hdf5Module(const SharedObject& library);

    shardweld_hdf5_is_parallel_function* is_parallel_;
    shardweld_hdf5_create_function* create_;
    shardweld_hdf5_error_function* error_;
};

}  // namespace shardweld::execute
