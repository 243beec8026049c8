// What to do about moments that are not carried over.
#pragma once

namespace shardweld::formats {

inline constexpr const char* kMastersOrWeights =
    "take the fp32 masters with --state master, or the weights alone with --state weights";

}  // namespace shardweld::formats
