// What the program that lists HDF5 files (shardweld_hdf5_list FILE) prints: values as ByteWriter
// puts them. Includes nothing of HDF5. Whoever reads a listing checks all of it: the file may have
// been made to mislead the library.
#pragma once

#include <cstdint>

namespace shardweld::hdf5 {

/// First and last value of a whole listing.
inline constexpr std::uint32_t kListingBegin = 0x35464448;
inline constexpr std::uint32_t kListingEnd = 0x2E444E45;

/// What follows. A listing is kListingBegin, any number of objects or one failure, kListingEnd.
enum class Entry : std::uint8_t {
    end,            ///< kListingEnd follows
    failure,        ///< text: why the library cannot read the file
    dataset,        ///< name, then a Dataset's fields in their order
    soft_link,      ///< name
    external_link,  ///< name
    group,          ///< name
    other,          ///< name
};

enum class Layout : std::uint8_t {
    contiguous,
    compact,
    chunked,
    virtual_dataset,
    external,
    unknown
};

// A dataset's fields:
//   text     storage      "F32", "U16"..., as safetensors names; "" for every other type
//   Layout   layout
//   uint64   n_filters
//   uint64   offset       of its first byte in the file; ~0: it has no bytes
//   int64s   shape        empty for a scalar
//   uint8    is_null      1: a null dataspace, which has no shape
//   text     dtype        attribute shardweld_dtype, "" if none
//   uint8    has_place    1: the two attributes of a piece are there
//   int64s   global_shape attribute shardweld_global_shape
//   int64s   offsets      attribute shardweld_offsets
//   text     fault        what is wrong with its attributes, "" if nothing

}  // namespace shardweld::hdf5
