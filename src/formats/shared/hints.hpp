// What to do, where several formats say the same.
#pragma once

namespace shardweld::formats {

inline constexpr const char* kCopyAll = "copy the files of all ranks";
inline constexpr const char* kOneSave = "copy all files from one save: these are of several";
inline constexpr const char* kWhereModel =
    "there is nothing to merge: give the save that holds the model's weights";

/// Said where names are Megatron's, but no args, transformer_config.json or run_config.yaml is.
inline constexpr const char* kNothingStated =
    "nothing states the run's arguments: heads, norms, rotary embeddings and experts are as "
    "config.json says, unchecked where no tensor's shape shows them";

}  // namespace shardweld::formats
