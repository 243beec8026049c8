// What system calls answer: errors, and that a signal interrupted them.
#pragma once

#include <cerrno>
#include <string>

#include "core/path.hpp"

namespace shardweld::io {

/// An Error with code_of_errno. Text: "cannot WHAT PATH: REASON (errno N)".
[[noreturn]] void throw_errno(int error, const std::string& what, const fs::path& path);

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
