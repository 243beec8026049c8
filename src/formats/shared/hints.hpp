// What several formats say alike: errors, and what to do.
#pragma once

#include <string>

#include "catalogue/claims.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

using catalogue::kOneSave;
using catalogue::require_at_most;
using catalogue::require_equal;

inline constexpr const char* kCopyAll = "copy the files of all ranks";
/// For states of an optimizer that are not carried over.
inline constexpr const char* kWeightsOnly = "take the weights alone with --state weights";
inline constexpr const char* kMastersOrWeights =
    "take the fp32 masters with --state master, or the weights alone with --state weights";
inline constexpr const char* kOneSaveOrWeights =
    "copy all files from one save, or take the weights alone with --state weights";
inline constexpr const char* kCopyAgainOrWeights =
    "copy the file again, or take the weights alone with --state weights";
inline constexpr const char* kWhereModel =
    "there is nothing to merge: give the save that holds the model's weights";

/// Said where names are Megatron's, but no args, transformer_config.json or run_config.yaml is.
inline constexpr const char* kNothingStated =
    "nothing states the run's arguments: heads, norms, rotary embeddings and experts are as "
    "config.json says, unchecked where no tensor's shape shows them";

/// Error(mismatch) of files that contradict each other.
inline Error mixed_saves_error(const std::string& what) {
    return {ErrorCode::mismatch, what, kOneSave};
}
/// Error(not_found) of files without which the others are no whole checkpoint.
inline Error files_missing(const std::string& what) {
    return {ErrorCode::not_found, what, kCopyAll};
}

/// Error(corrupt) of what a file says of an optimizer.
[[noreturn]] inline void refuse_said(const std::string& what) {
    throw Error(ErrorCode::corrupt, what, kCopyAgainOrWeights);
}

}  // namespace shardweld::formats
