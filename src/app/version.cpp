#include "version.hpp"

#ifndef SHARDWELD_VERSION
#define SHARDWELD_VERSION "unknown"
#endif
#ifndef SHARDWELD_GIT
#define SHARDWELD_GIT "unknown"
#endif

namespace shardweld::app {

std::string version() {
    return SHARDWELD_VERSION;
}
std::string git_version() {
    return SHARDWELD_GIT;
}

}  // namespace shardweld::app
