// A HuggingFace model directory that is compared with: its tensors as they lie in its files, and
// what its config.json says. Knows formats and ranks; nothing of recipes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shardweld/execute/comparison.hpp"
#include "shardweld/mpi/comm.hpp"
#include "shardweld/plan/binding.hpp"

#include "../cli/options.hpp"
#include "../survey/survey.hpp"

namespace shardweld::app {

namespace fs = std::filesystem;

struct ModelDirectory {
    Survey survey;
    std::string config_text;                    ///< "" without a config.json
    std::shared_ptr<execute::RecordSums> sums;  ///< of its records; null: nobody looks at them

    [[nodiscard]] const std::vector<catalogue::Tensor>& tensors() const {
        return survey.catalogue.tensors;
    }
    /// Files as this rank reads them; points into this value.
    [[nodiscard]] execute::Source source(std::size_t max_open,
                                         std::shared_ptr<io::Throttle> throttle) const;
    /// The checksums of what these pairs are compared with are to be looked at.
    void want(const std::vector<execute::Pair>& pairs) const;
    /// Collective, when what of it was wanted is read. Error(corrupt) as execute::check_records.
    void check_what_was_read(mpi::Comm& comm, const execute::Source& source) const;
    /// tie_word_embeddings, where config.json says it. Error(corrupt) when it is no JSON object.
    [[nodiscard]] std::optional<bool> ties() const;
};

/// Collective. Reads the directory's metadata (safetensors or torch files, also behind an index).
/// Error(not_found) when a rank does not see a file of it: every rank reads its own part. Whatever
/// `when` is but off, checksums are looked at as its files are read.
ModelDirectory read_model_directory(mpi::Comm& comm, const fs::path& directory, CheckCrc when);

/// The tensors as targets that are written as they are stored. Pure.
std::vector<plan::Target> targets_of(const std::vector<catalogue::Tensor>& tensors);

/// As ModelDirectory::ties, of any config.json's text.
std::optional<bool> ties_in(const std::string& config_text, const std::string& path);

}  // namespace shardweld::app
