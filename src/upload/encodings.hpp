// Where a secret stands in a text, whole or in part, as it is or encoded.
// Knows how programs write bytes; nothing of where a text comes from.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardweld::upload {

/// What stands where a secret stood.
inline constexpr std::string_view kHidden = "***";

/// `text` with *** for every stretch of it that holds a piece of a secret of eight bytes or more
/// (of a shorter secret: all of it): plain, as base64 of either alphabet and at any place in what
/// is encoded, as hex digits, or with bytes written %XX, \xXX, \uXXXX, \ooo, &#NN; or behind a
/// backslash, also twice so. A secret that is wrapped over lines is hidden in each of them.
std::string hide_pieces(std::string_view text, std::span<const std::string> secrets);

}  // namespace shardweld::upload
