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
    const shardweld_hdf5_tensor* tensors;
    std::uint64_t n_tensors;
    const char* text_name;
    std::uint64_t text_bytes;  ///< 0: no such dataset
};

/// Consecutive bytes of a file.
struct shardweld_hdf5_part {
    std::uint64_t offset;
    const void* bytes;
    std::uint64_t size;
};

/// A file without its tensors' bytes. Tensors may be written over parts, which are zero there.
struct shardweld_hdf5_structure {
    const std::uint64_t* offsets;  ///< of each dataset's bytes in the file; the text's is the last
    const shardweld_hdf5_part* parts;  ///< in the file's order; nothing else has to be written
    std::uint64_t n_parts;
    std::uint64_t file_bytes;
};

/// Raised with every change of this file; the loader refuses a module of another number.
inline constexpr std::int32_t kShardweldHdf5Abi = 2;

/// An offset of a dataset that has no bytes.
inline constexpr std::uint64_t kShardweldHdf5NoOffset = ~std::uint64_t{0};

using shardweld_hdf5_abi_function = std::int32_t();

/// The structure of a file with room for all bytes, made in memory. Null on failure, with a text in
/// shardweld_hdf5_error().
using shardweld_hdf5_make_function =
    const shardweld_hdf5_structure*(const shardweld_hdf5_file* file);

/// To be called once for each structure.
using shardweld_hdf5_release_function = void(const shardweld_hdf5_structure* structure);

/// What the last call that failed has to say; "" when there was no memory.
using shardweld_hdf5_error_function = const char*();
}
