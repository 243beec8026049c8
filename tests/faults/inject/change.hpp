// Changes a file behind the back of who reads it.
#pragma once

#include <string>

#include "fault.hpp"

namespace shardweld::faults {

/// scribble: other bytes in its middle; grow: 4096 bytes more; shorten: to a half; replace: another
/// file of the same size under its name; vanish: no file under its name; link: a link to
/// /etc/passwd instead; script: what the shell makes of SHARDWELD_FAULT_SCRIPT.
void change(Kind kind, const std::string& path);

}  // namespace shardweld::faults
