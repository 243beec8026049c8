#include <cerrno>
#include <system_error>

#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"

namespace shardweld::io {

namespace {

ErrorCode code_of(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return ErrorCode::space;
        case ENOENT:
        case ENOTDIR:
            return ErrorCode::not_found;
        case ENOMEM:
            return ErrorCode::memory;
        default:
            return ErrorCode::io;
    }
}

}  // namespace

void throw_errno(int error, const std::string& what, const fs::path& path) {
    throw Error(code_of(error), "cannot " + what + " " + path.string() + ": " +
                                    std::generic_category().message(error) + " (errno " +
                                    std::to_string(error) + ")");
}

}  // namespace shardweld::io
