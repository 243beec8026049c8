// Which machine this process runs on. Knows the system only.
#pragma once

#include <string>

namespace shardweld {

/// As gethostname(2) tells it; "unknown" where it does not.
std::string host_name();

/// What Linux calls this start of the machine: another machine of the same name, or the same one
/// started again, has another; "" where it is not told.
std::string boot_id();

}  // namespace shardweld
