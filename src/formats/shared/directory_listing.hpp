// What is read of a directory before any shard: its names, once, and its JSON files as values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

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

/// As above, or an empty listing when there is no such directory.
Listing try_list_directory(const fs::path& directory);

/// As above, or an empty listing when it cannot be read.
Listing readable_listing(const fs::path& directory);

/// The first file of a listing that ends in `suffix`.
std::optional<std::string> first_with_suffix(const Listing& listing, std::string_view suffix);

/// "a, b, c", at most twenty and how many more; every name printable.
std::string name_list(const std::vector<std::string>& names);

/// The value; a discarded one (is_discarded()) when the text is not valid JSON or nested deeper
/// than any file of a checkpoint. `visit` may take values out while the text is read, so that large
/// ones are never in memory as a tree.
nlohmann::json parse_json(std::string_view text,
                          const nlohmann::json::parser_callback_t& visit = nullptr);

/// Whether a config.json describes a run, in which the model is one object, and no HuggingFace
/// model: OLMo-core's (train/callbacks/config_saver.py). Local; false where it cannot be read.
bool is_run_config(const fs::path& file);

}  // namespace shardweld::formats
