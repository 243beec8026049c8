// What a file is that was taken for another: told by how it begins.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

struct FileSign {
    std::size_t offset = 0;  ///< where `bytes` stand
    std::string_view bytes;
    std::string_view ending;  ///< of the name; "" for any
    std::string_view what;    ///< "a tar archive"
    std::string_view remedy;
};

/// The kind of a file whose first bytes are `head`; nullptr when nothing gives it away.
const FileSign* sign_of(std::string_view head, std::string_view name);

/// The kind of an open file. Error(io).
const FileSign* sign_of(const io::InputFile& file);

}  // namespace shardweld::formats
