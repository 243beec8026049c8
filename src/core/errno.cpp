#include "errno.hpp"

#include <cerrno>
#include <system_error>

namespace shardweld {

ErrorCode code_of_errno(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return ErrorCode::space;
        case ENOMEM:
            return ErrorCode::memory;
        case ENOENT:
        case ENOTDIR:
            return ErrorCode::not_found;
        default:
            return ErrorCode::io;
    }
}

std::string text_of_errno(int error) {
    return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

}  // namespace shardweld
