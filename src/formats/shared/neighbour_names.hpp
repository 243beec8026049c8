// What names say of files that lie beside a model, and of the state that trainers save beside it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/catalogue_words.hpp"
#include "formats/format.hpp"

#include "directory_listing.hpp"

namespace shardweld::formats {

/// Why training state is left aside, in path_rules.txt too.
inline constexpr const char* kTrainingState = "training state";

/// Whether a file of this name could hold weights: "model.safetensors", and copies such as
/// "model.safetensors.bak".
bool could_hold_weights(std::string_view name);

/// Whether a directory holds the weights of a finished HuggingFace model.
bool is_hf_model(const Listing& listing);

/// Whether a dictionary's key or a directory's name is that of optimizers, schedulers, data
/// loaders, random generators...: also numbered, in the plural or with `_state`, `_state_dict`.
bool is_training_key(std::string_view key);

/// Whether it is one that no module of a model is called by: "optimizer", not "scaler" or "loops".
bool is_training_only(std::string_view key);

/// Whether a single number of this name is one that trainers count or measure: "global_step",
/// "train_loss".
bool is_training_number(std::string_view key);

/// Error(not_found) saying of `where` that it holds only optimizer (or other training) state, what
/// that is, and where the weights usually lie, unless `hint` knows better.
[[noreturn]] void refuse_only_state(const std::string& where, const Catalogue& catalogue,
                                    const std::string& hint = "");

/// The size of a file beside what is read. Neighbours that are shards have none (look_around), so
/// that few files are asked for theirs; nullopt where another node has the file.
std::optional<Bytes> size_of(const Location& location, const Neighbour& neighbour);

}  // namespace shardweld::formats
