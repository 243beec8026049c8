// What Megatron's distributed checkpoints hold beside model tensors: metadata.json, common.pt and
// keys of training state. Knows those by name; nothing of how tensors are stored.
// Source: megatron-core 0.12.2 and 0.16.1 megatron/core/dist_checkpointing/{core,serialization}.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"

namespace shardweld::formats::megatron {

inline constexpr const char* kBackendFile = "metadata.json";
inline constexpr const char* kCommonFile = "common.pt";

/// What metadata.json names as the format of the shards; nullopt when it is some other file of that
/// name.
std::optional<std::string> sharded_backend(const fs::path& path);

/// Files to scan: `first`, and of common.pt and verl's transformer_config.json those that are
/// there.
std::vector<std::string> metadata_files(const Location& location, const char* first);

/// Puts sizes that the claims state among the facts, and how adapters are kept; refuses what cannot
/// be read. Chunks are of whole tensors: gate and up rows are not interleaved by rank.
void add_global_facts(catalogue::Catalogue& out);

/// Claims of `args` and the iteration in common.pt; `check_crc` as in TorchFile::read.
catalogue::Catalogue scan_common(const fs::path& path, bool check_crc);

/// Claims in verl's transformer_config.json.
catalogue::Catalogue scan_claims(const fs::path& path);

/// Pattern and reason under which a key is left aside; nullopt for model tensors.
std::optional<std::pair<std::string, std::string>> ignored_row(std::string_view key);

}  // namespace shardweld::formats::megatron
