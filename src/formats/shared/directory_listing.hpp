// What is read of a directory before any shard: its names, once, and the sums that it lists.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/names/name_rules.hpp"
#include "core/path.hpp"

namespace shardweld::formats {

/// Names (not paths) in natural order; links count as what they lead to, broken ones as nothing.
struct Listing {
    std::vector<std::string> files;
    std::vector<std::string> directories;
    std::vector<std::string> links;  ///< those of the files and directories that are links

    [[nodiscard]] bool has_file(std::string_view name) const;
    [[nodiscard]] bool has_directory(std::string_view name) const;
};

/// What `directory` holds. Error(not_found) when it is absent or no directory, Error(io) when
/// unreadable.
Listing list_directory(const fs::path& directory);

/// What `directory` holds; an empty listing when there is no such directory. Error(io).
Listing try_list_directory(const fs::path& directory);

/// What `directory` holds; an empty listing when it cannot be read.
Listing readable_listing(const fs::path& directory);

/// Whether something of a directory fits a row.
bool fits(const NameRule& rule, const Listing& listing);
/// The first row that something of a directory fits; nullptr: none.
const NameRule* rule_for(const std::vector<NameRule>& rules, const Listing& listing);

/// "a, b, c", at most twenty and how many more; every name printable.
std::string name_list(const std::vector<std::string>& names);

/// All files of every set that `files` are of must be among them: files that number themselves
/// ("model-00002-of-00003.safetensors"). Sets count from 1, or from 0 where there is a 0.
/// Error(not_found) naming those that are not.
void require_whole_sets(const std::vector<std::string>& files);

/// Whether a config.json describes a run, in which the model is one object, and no HuggingFace
/// model: OLMo-core's (train/callbacks/config_saver.py). Local; false where it cannot be read.
bool is_run_config(const fs::path& file);

/// The SHA-256 sums that a save lists of its own files in integrity.json, which Megatron writes
/// with
/// --verify-integrity (megatron-core 0.19.2 megatron/core/dist_checkpointing/validation.py), by
/// file name; empty where the directory has no such file. Error(corrupt) where it is damaged,
/// Error(unsupported) where its sums are of another kind.
std::map<std::string, std::string> listed_sums(const fs::path& directory);

}  // namespace shardweld::formats
