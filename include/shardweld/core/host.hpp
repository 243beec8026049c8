// The name of the machine this process runs on. Knows the system only.
#pragma once

#include <string>

namespace shardweld {

/// As gethostname(2) tells it; "unknown" where it does not.
std::string host_name();

}  // namespace shardweld
