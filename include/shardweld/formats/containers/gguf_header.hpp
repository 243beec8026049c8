// The header of a GGUF file: which tensors it holds and where, and the names of its metadata. Knows
// the container only. Format: version 3, ggml's docs/gguf.md.
#pragma once

#include <map>
#include <set>
#include <string>

#include "shardweld/formats/containers/torch_file.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

struct GgufHeader {
    std::map<std::string, StoredTensor> tensors;  ///< by name; blocks are bytes (U8), by rows
    std::set<std::string> keys;
};

/// Checked as llama.cpp checks it: tensors lie one after another, each at the next multiple of the
/// alignment, and inside the file. Error(corrupt) for a malformed header or one of more than
/// 256 MiB; Error(unsupported) for another version and for types that this program does not write.
GgufHeader read_gguf(const io::InputFile& file);

}  // namespace shardweld::formats
