// A HuggingFace model directory that is compared with: its tensors as they lie in its files, and
// what its config.json says. Knows formats and ranks; nothing of recipes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/survey/input.hpp"
#include "core/path.hpp"
#include "execute/comparer.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

struct ModelDirectory {
    Input input;
    std::vector<catalogue::Tensor> tensors;
    std::string config_text;  ///< "" without a config.json

    /// The checksums of what these pairs are compared with are to be looked at.
    void want(const std::vector<execute::Pair>& pairs) const;
    /// tie_word_embeddings, where config.json says it. Error(corrupt) when it is not a JSON object.
    [[nodiscard]] std::optional<bool> ties() const;
};

/// Collective. Reads the directory's metadata (safetensors or torch files, also behind an index).
/// Error(not_found) when a rank does not see a file of it: every rank reads its own part. Unless
/// --check_crc off, checksums are looked at as its files are read.
ModelDirectory read_model_directory(Session& session, const fs::path& directory);

/// The tensors as targets that are written as they are stored. Pure.
std::vector<plan::Target> targets_of(const std::vector<catalogue::Tensor>& tensors);

/// As ModelDirectory::ties, of any config.json's text.
std::optional<bool> ties_in(const std::string& config_text, const std::string& path);

}  // namespace shardweld::app
