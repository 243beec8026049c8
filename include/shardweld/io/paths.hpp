// Where paths lead. Knows names and links; opens nothing.
#pragma once

#include <filesystem>

namespace shardweld::io {

/// The path made absolute, without a trailing slash, links resolved as far as it exists. Error(io).
std::filesystem::path resolved(const std::filesystem::path& path);

/// Whether `path` is `directory` or lies below it; both resolved. Pure.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& directory);

}  // namespace shardweld::io
