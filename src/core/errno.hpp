// The system's error numbers as codes and texts. Knows errno; nothing of files.
#pragma once

#include <string>

#include "shardweld/error.hpp"

namespace shardweld {

/// ENOSPC, EDQUOT, EFBIG -> space; ENOMEM -> memory; ENOENT, ENOTDIR -> not_found; others -> io.
ErrorCode code_of_errno(int error);

/// "REASON (errno N)"
std::string text_of_errno(int error);

}  // namespace shardweld
