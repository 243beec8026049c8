// A finished model directory: read to be compared with, and held against the rules that loaders
// rely on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/survey/input.hpp"
#include "catalogue/file.hpp"
#include "catalogue/tensor.hpp"
#include "core/path.hpp"
#include "execute/comparer.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

/// A model directory that is compared with: its tensors as they lie in its files, and what its
/// config.json says.
struct ModelDirectory {
    Input input;
    std::vector<catalogue::Tensor> tensors;
    std::string config_text;  ///< "" without a config.json

    /// The checksums of what these pairs are compared with are to be looked at.
    void use_records_of(const std::vector<execute::ComparedPair>& pairs) const;
    /// tie_word_embeddings, where config.json says it. Error(corrupt) when it is not a JSON object.
    [[nodiscard]] std::optional<bool> ties() const;
};

/// Collective. Reads the directory's metadata (safetensors or torch files, also behind an index).
/// Error(not_found) when a rank does not see a file of it: every rank reads its own part. Unless
/// --check_crc off, checksums are looked at as its files are read.
ModelDirectory read_model_directory(const Run& run, const fs::path& directory);

/// The tensors as targets that are written as they are stored. Pure.
plan::Targets targets_of(const std::vector<catalogue::Tensor>& tensors);

/// tie_word_embeddings of a config.json's text; nullopt: it says nothing of it. Error(corrupt)
/// naming `path` when it is not a JSON object.
std::optional<bool> ties_in(const std::string& config_text, const std::string& path);

/// Throws one Error that lists all rules that `subject` breaks: not_found when all problems are,
/// else corrupt.
void require_sound(const std::string& subject, const std::vector<Error>& problems);

/// A written model's files, held against the rules that loaders rely on.
struct WrittenModel {
    std::vector<catalogue::File> files;
    std::vector<catalogue::Tensor> tensors;  ///< by name, one piece each
    bool has_index = false;
    std::string config_dtype;  ///< as config.json states it, "" if it does not
    bool is_gguf = false;      ///< else safetensors
    bool is_training = false;  ///< neither: a training checkpoint, as its report lists it

    [[nodiscard]] Bytes tensor_bytes() const;
};

/// Reads headers, index and config.json of `directory` and checks that
/// - every file is strict safetensors: no holes, overlaps, trailing bytes, repeated names;
/// - without an index there is model.safetensors alone; with one, every file it names is there, no
///   other lies beside them, every tensor is in exactly the file named, total_size is their sum;
/// - without safetensors, GGUF files are what llama.cpp reads;
/// - config.json is a JSON object whose dtype is that of most tensor bytes.
/// Local. One Error that lists all broken rules: not_found when all that is wrong is something
/// missing, else corrupt; Error(unsupported) for other kinds of weights.
WrittenModel read_written_model(const fs::path& directory);

}  // namespace shardweld::app
