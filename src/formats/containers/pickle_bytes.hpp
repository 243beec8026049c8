// Reading large pickles: what is refused before their bytes take memory, and by which file's name.
// Knows sizes and the first opcodes; what a pickle holds is its readers' business.
#pragma once

#include <cstddef>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// A larger pickle is no state dict: tensors' bytes lie outside of it.
inline constexpr Bytes kMaxPickleBytes = Bytes{1} << 32U;

/// Of a pickle of more than a mebibyte, `size` bytes at `offset` of a file, the first 64 KiB must
/// read as one that goes on: a file of holes would else be read whole to be refused. Errors as
/// Pickle::parse, and Error(corrupt) when it ends there.
void check_start(const io::InputFile& file, Bytes offset, Bytes size);

/// A file that is one pickle. Error(corrupt) when it is larger than kMaxPickleBytes or does not
/// begin as one.
std::vector<std::byte> read_pickle(const fs::path& path);

/// Error(memory) that names the file whose reading took more than there is.
[[noreturn]] void throw_no_memory(const fs::path& path);

}  // namespace shardweld::formats
