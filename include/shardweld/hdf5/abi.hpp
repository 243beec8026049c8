// The plain C interface between the program and its HDF5 module, a shared object of its own.
// Includes nothing of either side, so that both compile it.
#pragma once

#include <cstdint>

extern "C" {

/// A dataset to be made. `dtype` is a safetensors name; `shape` has `rank` extents.
struct shardweld_hdf5_tensor {
    const char* name;
    const char* dtype;
    const std::int64_t* shape;
    std::int32_t rank;
};

/// A file to be made: one dataset for each tensor, and one of bytes (`text_name`), at the root.
struct shardweld_hdf5_file {
    const char* path;  ///< must not exist
    const shardweld_hdf5_tensor* tensors;
    std::uint64_t n_tensors;
    const char* text_name;
    std::uint64_t text_bytes;    ///< 0: no such dataset
    std::int32_t is_collective;  ///< 1: all ranks of MPI_COMM_WORLD call together; 0: one alone
};

/// Raised with every change of this file; the loader refuses a module of another number.
inline constexpr std::int32_t kShardweldHdf5Abi = 1;

/// An offset of a dataset that has no bytes.
inline constexpr std::uint64_t kShardweldHdf5NoOffset = ~std::uint64_t{0};

using shardweld_hdf5_abi_function = std::int32_t();

/// 1 when the library was built for MPI, else 0.
using shardweld_hdf5_is_parallel_function = std::int32_t();

/// Makes a file with room for all bytes, none of them written. `offsets` (n_tensors + 1, the text's
/// last) are those of the file. 0, or 1 with a text in shardweld_hdf5_error().
using shardweld_hdf5_create_function = std::int32_t(const shardweld_hdf5_file* file,
                                                    std::uint64_t* offsets);

/// What the last call that failed has to say.
using shardweld_hdf5_error_function = const char*();
}
