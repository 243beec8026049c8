#include "environment.hpp"

#include <cstdlib>

namespace shardweld {

namespace {

bool is_heeded = false;

}  // namespace

void heed_environment() {
    is_heeded = true;
}

std::optional<std::string> variable(const std::string& name) {
    const char* value =
        is_heeded ? std::getenv(name.c_str()) : nullptr;  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace shardweld
