// HuggingFace model directories as an input.
#pragma once

#include "core/path.hpp"
#include "formats/format.hpp"

namespace shardweld::formats::hf {

/// Error(usage) where a directory holds such files, but under names of wrappers or of PEFT, from
/// which nothing loads them. Looks at the first file of weights or their index.
void refuse_wrapped(const fs::path& directory);

}  // namespace shardweld::formats::hf
