// Hides what must not be shown.
#pragma once

#include <string>
#include <string_view>

namespace shardweld {

/// For what this program says, in messages, reports, pages and logs: `text` with *** instead of
/// values of this process's environment that its names call tokens, keys, passwords and the like
/// (AWS_SECRET_ACCESS_KEY, RCLONE_CONFIG_X_PASS), as they were at the first call; no paths; tokens
/// of the Hub (hf_ and 16 letters or more); what follows "Bearer" and, to the end of the line,
/// "Authorization"; user names, passwords and parameters in addresses (signatures are in there);
/// the values behind such names (HF_TOKEN=...).
std::string without_secrets(std::string_view text);

}  // namespace shardweld
