// The header of a safetensors file, or of one inside a larger file: which tensors it holds and
// where. Knows the container only. Format: safetensors 0.8, safetensors/src/tensor.rs.
#pragma once

#include <map>
#include <string>

#include "shardweld/formats/shared/torch_file.hpp"
#include "shardweld/io/file.hpp"

namespace shardweld::formats {

/// Tensors by name, dense, of the container that begins at `begin` and ends with the file.
/// Error(corrupt) when the header is malformed, a tensor lies outside the file or its size
/// contradicts its shape; Error(unsupported) for unknown dtypes.
std::map<std::string, StoredTensor> read_safetensors_header(const io::InputFile& file,
                                                            Bytes begin = 0);

}  // namespace shardweld::formats
