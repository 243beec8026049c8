// What the system said, as an Error.
#pragma once

#include <string>

#include "core/path.hpp"

namespace shardweld::io {

/// An Error with code_of_errno. Text: "cannot WHAT PATH: REASON (errno N)".
[[noreturn]] void throw_errno(int error, const std::string& what, const fs::path& path);

}  // namespace shardweld::io
