// The header of a GGUF file: which tensors it holds and where, and its metadata.
// Format: version 3, ggml's docs/gguf.md.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "torch_file.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// The header of a GGUF file: its keys and tensors.
struct GgufHeader {
    std::map<std::string, StoredTensor> tensors;        ///< by name; blocks are bytes (U8), by rows
    std::map<std::string, std::vector<Index>> extents;  ///< of values, whatever their blocks
    std::set<std::string> keys;
    std::map<std::string, std::string> texts;  ///< of keys with a text
    std::map<std::string, Index> numbers;      ///< of those with a whole number, or a flag
    std::map<std::string, Index> lengths;      ///< of those with a list
};

/// Checked as llama.cpp checks it: tensors lie one after another, each at the next multiple of the
/// alignment, and inside the file. Error(corrupt) for a malformed header or one of more than
/// 256 MiB; Error(unsupported) for another version and for types that this program does not know.
GgufHeader read_gguf(const io::InputFile& file);

}  // namespace shardweld::formats
