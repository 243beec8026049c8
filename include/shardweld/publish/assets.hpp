// The small files of a model directory beside the weights: which are taken over, and writing them.
// Knows HuggingFace's file names; knows nothing of their contents nor of tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardweld::publish {

namespace fs = std::filesystem;

/// A file to be written: the bytes of `source`, or `text` when there is one.
struct Asset {
    std::string name;  ///< relative to the model directory ("chat_templates/tool.jinja")
    fs::path source;
    std::optional<std::string> text;
    friend bool operator==(const Asset&, const Asset&) = default;
};

/// Whether a file of this name belongs to a model directory beside the weights: configurations,
/// tokenizers, templates, processors and custom code; no weights, indices or documents. config.json
/// is not among them: its text is decided by true_config.
bool is_asset(std::string_view file_name);

/// The assets of a HuggingFace directory, sorted by name; regular files and links to such. Local.
/// Error(unsupported) when there are more or larger files than model directories have (1000 files,
/// 1 GiB each); Error(io) when the directory cannot be read.
std::vector<Asset> collect_assets(const fs::path& hf_directory);

/// Names like those of assets that are no readable file: links to nothing (a snapshot of the Hub's
/// cache that was copied without its blobs), special files, directories called like a file
/// ("tokenizer.json", not "tokenizer"). Sorted, each with what it is: "vocab.json (a link to
/// nothing)". Local. Error(io) when the directory cannot be read.
std::vector<std::string> lost_assets(const fs::path& hf_directory);

/// Writes all assets into `directory`, checked; with `sync` also fsynced. `before_file` is called
/// at each. Local. Error(io), Error(space).
void write_assets(
    const std::vector<Asset>& assets, const fs::path& directory, bool sync,
    const std::function<void()>& before_file = [] {});

}  // namespace shardweld::publish
