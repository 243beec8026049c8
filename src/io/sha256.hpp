// SHA-256 of files, as sha256sum and the Hub state it.
// Knows files; nothing of what they hold.
#pragma once

#include <functional>
#include <string>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::io {

class InputFile;

/// Of the whole file, 64 hex digits; one core reads and computes, front to back, and calls
/// `before_part` with the bytes that it reads next, at most 256 KiB. Local. Error(not_found),
/// Error(io).
std::string sha256_of(
    const fs::path& path, const std::function<void(Bytes)>& before_part = [](Bytes) {});
std::string sha256_of(
    const InputFile& file, const std::function<void(Bytes)>& before_part = [](Bytes) {});

}  // namespace shardweld::io
