// The header of a safetensors file, or of one inside a larger file: which tensors it holds and
// where.
// Format: safetensors 0.8, safetensors/src/tensor.rs.
#pragma once

#include <map>
#include <string>

#include "torch_file.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// The header of a safetensors file: its tensors and the texts beside them.
struct SafetensorsHeader {
    std::map<std::string, StoredTensor> tensors;  ///< by name, dense
    std::map<std::string, std::string> metadata;
};

/// What becomes of a tensor that is described twice, and in different ways.
enum class Twice {
    refused,
    last_counts  ///< as for the reference implementation
};

/// The header of the container that begins at `begin` and ends with the file, checked as the
/// reference implementation does: Error(corrupt) naming the tensor when the header is malformed or
/// larger than 100 MB, a name comes twice with different tensors, a size contradicts its shape, or
/// the tensors do not fill the data exactly (a hole, an overlap, bytes left over);
/// Error(unsupported) for unknown dtypes.
SafetensorsHeader read_safetensors(const io::InputFile& file, Bytes begin = 0,
                                   Twice twice = Twice::refused);

/// Its tensors alone.
std::map<std::string, StoredTensor> read_safetensors_header(const io::InputFile& file,
                                                            Bytes begin = 0);

}  // namespace shardweld::formats
