// System calls that a signal may interrupt.
#pragma once

#include <cerrno>

namespace shardweld::io {

/// Makes the call again as long as it answers -1 with EINTR. Not for close(2).
template <typename F>
auto retried(F call) -> decltype(call()) {
    auto answer = call();
    while (answer == -1 && errno == EINTR) {
        answer = call();
    }
    return answer;
}

}  // namespace shardweld::io
