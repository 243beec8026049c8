// Where programs are looked for.
#pragma once

#include <string>

#include "core/environment.hpp"

namespace shardweld::app {

/// PATH; "" when it is not set or not listened to.
inline std::string search_path() {
    return variable("PATH").value_or("");
}

}  // namespace shardweld::app
