// What the program that lists HDF5 files (shardweld_hdf5_list FILE) prints: values as
// ListingWriter puts them. Includes nothing of HDF5. Whoever reads a listing checks all of it: the
// file may have been made to mislead the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardweld::hdf5 {

/// First and last value of a whole listing.
inline constexpr std::uint32_t kListingBegin = 0x35464448;
inline constexpr std::uint32_t kListingEnd = 0x2E444E45;

/// What follows. A listing is kListingBegin, any number of objects or one failure, kListingEnd.
enum class ListingEntry : std::uint8_t {
    end,            ///< kListingEnd follows
    failure,        ///< text: why the library cannot read the file
    dataset,        ///< name, then a Dataset's fields in their order
    soft_link,      ///< name
    external_link,  ///< name
    group,          ///< name
    other,          ///< name
};

enum class DatasetLayout : std::uint8_t {
    contiguous,
    compact,
    chunked,
    virtual_dataset,
    external,
    unknown
};

// A dataset's fields:
//   text     storage      "F32", "U16"..., as safetensors names; "" for every other type
//   DatasetLayout layout
//   uint64   n_filters
//   uint64   offset       of its first byte in the file; ~0: it has no bytes
//   int64s   shape        empty for a scalar
//   uint8    is_null      1: a null dataspace, which has no shape
//   text     dtype        attribute shardweld_dtype, "" if none
//   uint8    has_place    1: the two attributes of a piece are there
//   int64s   global_shape attribute shardweld_global_shape
//   int64s   offsets      attribute shardweld_offsets
//   text     fault        what is wrong with its attributes, "" if nothing

/// Numbers and enums as they lie in memory; texts and lists behind a uint64, how long they are.
class ListingWriter {
  public:
    template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
    void put(T value) { put_bytes(std::as_bytes(std::span(&value, 1))); }
    void put(const std::string& text) {
        put<std::uint64_t>(text.size());
        put_bytes(std::as_bytes(std::span(text)));
    }
    void put(const std::vector<std::int64_t>& numbers) {
        put<std::uint64_t>(numbers.size());
        put_bytes(std::as_bytes(std::span(numbers)));
    }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    void put_bytes(std::span<const std::byte> bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }

    std::vector<std::byte> bytes_;
};

}  // namespace shardweld::hdf5
