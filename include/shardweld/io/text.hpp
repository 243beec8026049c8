// A whole small file that is open already, as text.
// Knows nothing of formats.
#pragma once

#include <string>

#include "shardweld/io/file.hpp"

namespace shardweld::io {

/// Error(corrupt) when it is larger than `limit`, Error(io) when it changes meanwhile.
std::string text_of(const InputFile& file, Bytes limit);

}  // namespace shardweld::io
