// verl's checkpoint directories: roles, ckpt_contents.json and what lies beside the shards; and
// NeMo 2's, weights/ and context/.
// Sources: verl 0.9.1 verl/utils/checkpoint/megatron_checkpoint_manager.py; a listing of NeMo 2's
// in NVIDIA-NeMo/Megatron-Bridge#335.
#pragma once

#include <optional>
#include <string>

#include "formats/shared/directory_listing.hpp"

#include "format.hpp"

namespace shardweld::formats {

/// Error(not_found) when a role holds the model for HuggingFace and no shards.
void refuse_finished(const fs::path& directory);

/// actor or critic below a step directory; nullopt when there is neither. Error(usage) when both
/// are there and `role` is "", Error(not_found) when the role asked for is not there.
std::optional<fs::path> role_directory(const fs::path& directory, const Listing& listing,
                                       const std::string& role);

/// The model's shards below a role directory: where ckpt_contents.json says, else model/dist_ckpt,
/// dist_ckpt or model, or weights/ of NeMo; nullopt when there is none. Error(corrupt) when
/// ckpt_contents.json is malformed or leads out of the directory, Error(not_found) when it lists no
/// model or a directory that is absent.
std::optional<fs::path> model_directory(const fs::path& directory, const Listing& listing);

/// Completes a location by what lies beside its shards: huggingface/, transformer_config.json,
/// NeMo's tokenizer, and
/// notes on adapters and incomplete saves. Looked for in the directory of the shards and up to two
/// above it, as long as they lie in `given` (--local_dir without dots) or belong to the same layout
/// (dist_ckpt and what it lies in, model/dist_ckpt, weights beside context, what ckpt_contents.json
/// lies in) and to root, to this user or to the owner of `given`. What is taken from outside
/// `given` is noted, and so is what is not for its owner. Error(io).
void add_companions(Location& location, const fs::path& given);

}  // namespace shardweld::formats
