// What to do, where several formats say the same.
#pragma once

namespace shardweld::formats {

inline constexpr const char* kCopyAll = "copy the files of all ranks";
inline constexpr const char* kOneSave = "copy all files from one save: these are of several";
inline constexpr const char* kWhereModel =
    "there is nothing to merge: give the save that holds the model's weights";

}  // namespace shardweld::formats
