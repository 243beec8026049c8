// Names that come from input.
#pragma once

#include <string_view>

namespace shardweld {

/// Whether a path from input leads to something below the directory that it is put behind:
/// relative, of parts that are names, without a zero byte, at which the system would cut it.
bool leads_below(std::string_view path);
/// Whether it stays there, spelled as it may be: "./a/", ".".
bool stays_below(std::string_view path);

/// Whether a name may be handed to a command: letters, digits, ".", "_", "-", which is not the
/// first, and Lightning's "=". No shell reads anything into it, and no program an option.
bool is_plain_name(std::string_view name);

}  // namespace shardweld
