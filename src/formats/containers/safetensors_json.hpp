// The JSON text of a safetensors header, by the format's strict rules.
// Knows the text only: what it says of offsets is compared with the file elsewhere.
// Format: safetensors 0.8, safetensors/src/tensor.rs.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld::formats {

struct SafetensorsEntry {
    std::string name;
    std::string dtype;         ///< as written: "BF16"
    std::vector<Index> shape;  ///< elements
    Bytes begin = 0;           ///< data_offsets, relative to the data's start
    Bytes end = 0;

    bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsText {
    std::string twice;  ///< a tensor that is described twice, and in different ways; "": none
    std::deque<SafetensorsEntry> entries;         ///< in the order of the text
    std::map<std::string, std::string> metadata;  ///< of `__metadata__`
};

/// Parses in one pass without building a tree, in memory linear in the text, as the reference
/// implementation does: other fields of a tensor are passed over, and of a tensor that comes twice
/// the last description counts. Error(corrupt) naming the tensor for anything but an object with
/// dtype, shape and data_offsets, each of them once, and for metadata that is not text.
SafetensorsText parse_safetensors_text(std::string_view text);

}  // namespace shardweld::formats
