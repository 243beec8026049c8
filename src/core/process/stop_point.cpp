#include "stop_point.hpp"

#include <atomic>

#include "shardweld/error.hpp"

namespace shardweld {

namespace {

std::atomic<WhyStopped> why_stopped =  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
    nullptr;

}  // namespace

void set_why_stopped(WhyStopped why) {
    why_stopped = why;
}

void stop_point() {
    const WhyStopped why = why_stopped;
    if (const std::string reason = why == nullptr ? std::string() : why(); !reason.empty()) {
        throw Error(ErrorCode::stopped, reason);
    }
}

}  // namespace shardweld
