// The SHA-256 sums that a save lists of its own files: integrity.json, which Megatron writes with
// --verify-integrity.
// Source: megatron-core 0.19.2 megatron/core/dist_checkpointing/validation.py
// (save_integrity_manifest).
#pragma once

#include <map>
#include <string>

#include "core/path.hpp"

namespace shardweld::formats {

/// By file name; empty where the directory has no such file. Error(corrupt) where it is damaged,
/// Error(unsupported) where its sums are of another kind.
std::map<std::string, std::string> listed_sums(const fs::path& directory);

}  // namespace shardweld::formats
