// Small files as a whole.
#pragma once

#include <string>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::io {

class InputFile;

/// Whole small file as bytes/text. Error(corrupt) when larger than `limit`, Error(io) when it
/// changes meanwhile.
ByteBuffer read_bytes(const fs::path& path, Bytes limit);
std::string read_text(const fs::path& path, Bytes limit = 64U << 20U);
/// Writes a whole small file, checked, optionally fsynced.
void write_text(const fs::path& path, const std::string& text, bool sync);
/// Text of a file that is open. Error(corrupt) when it is larger than `limit`, Error(io) when it
/// changes meanwhile.
std::string text_of(const InputFile& file, Bytes limit);
/// fsync of a directory.
void sync_directory(const fs::path& path);

}  // namespace shardweld::io
