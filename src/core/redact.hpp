// Hides what must not be shown.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardweld {

/// `line` with *** instead of: the given secrets, in part and encoded too; tokens of the Hub (hf_
/// and 16 letters or more); what follows "Bearer" and, to the end of the line, "Authorization";
/// user names, passwords and parameters in addresses (signatures are in there). For what other
/// programs say.
std::string redacted(std::string_view line, std::span<const std::string> secrets);

/// Values of this process's environment that its names call tokens, keys, passwords and the like
/// (AWS_SECRET_ACCESS_KEY, RCLONE_CONFIG_X_PASS), as they were at the first call; no paths.
const std::vector<std::string>& secrets_of_environment();

/// The same for what this program says, in messages, reports, pages and logs: without those
/// values, as they are, and the values behind such names (HF_TOKEN=...).
std::string without_secrets(std::string_view text);

}  // namespace shardweld
