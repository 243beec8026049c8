// Where paths lead. Knows names and links; opens nothing.
#pragma once

#include <filesystem>

namespace shardweld::io {

/// The path made absolute, without a trailing slash, links resolved as far as it exists. Error(io).
std::filesystem::path resolved(const std::filesystem::path& path);

/// The path made absolute, without ".", ".." and a trailing slash. Links stay but for those that
/// ".." follows, which is then the directory above the link's end, as for the system. Error(io).
std::filesystem::path without_dots(const std::filesystem::path& path);

/// Whether `path` is `directory` or lies below it; both resolved. Pure.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& directory);

}  // namespace shardweld::io
