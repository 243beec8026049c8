#include "shardweld/core/errno.hpp"

#include "shardweld/io/file.hpp"

namespace shardweld::io {

void throw_errno(int error, const std::string& what, const fs::path& path) {
    throw Error(code_of_errno(error),
                "cannot " + what + " " + path.string() + ": " + text_of_errno(error));
}

}  // namespace shardweld::io
