// Hides what must not be shown.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardweld::upload {

/// `line` with *** instead of: the given secrets, in part and encoded too (encodings.hpp); tokens
/// of the Hub (hf_ and 16 letters or more); what follows "Bearer" and, to the end of the line,
/// "Authorization"; user names, passwords and parameters in addresses (signatures are in there).
std::string redacted(std::string_view line, std::span<const std::string> secrets);

}  // namespace shardweld::upload
