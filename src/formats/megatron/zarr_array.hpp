// One array of a zarr version 2 directory: `.zarray` and a file for each chunk of its grid.
// Sources: zarr storage specification version 2; zarr 2.18 and tensorstore 0.1.86 as writers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/shared/directory_listing.hpp"

namespace shardweld::formats::megatron {

inline constexpr const char* kArrayFile = ".zarray";

/// What `.zarray` says of an array that this program can read: uncompressed, row-major,
/// little-endian.
struct ZarrArray {
    DType dtype = DType::f32;
    std::vector<Index> shape;   ///< elements of the array
    std::vector<Index> chunks;  ///< elements of one chunk, [as many axes as shape]
};

/// Error(corrupt) when `text` is no description of an array, Error(unsupported) for compressors,
/// filters, other orders, versions and element types.
ZarrArray parse_zarray(const std::string& text);

/// "0.12.3" with exactly `n_axes` numbers ("0" for a scalar) is the name of a chunk.
bool is_chunk_name(std::string_view file);

/// The array in `directory` / `name` as a tensor called `name`, with its chunks as the catalogue's
/// files and pieces (paths relative to `directory`). Other files beside the chunks are not looked
/// at. Error(not_found) naming chunks that are absent, Error(corrupt) for chunks outside of the
/// grid or of another size than the grid's.
Catalogue read_zarr_array(const fs::path& directory, const std::string& name);

}  // namespace shardweld::formats::megatron
