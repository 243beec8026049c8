// What the processor has that casts and folds make use of.
#pragma once

#include <string>

namespace shardweld::numeric {

/// "AVX2, F16C, FMA", or "portable code" where none of them is there or was built in.
std::string instruction_sets();

}  // namespace shardweld::numeric
