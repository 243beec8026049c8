#include "pickle_bytes.hpp"

#include <algorithm>
#include <system_error>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "pickle.hpp"

namespace shardweld::formats {

void check_start(const io::InputFile& file, Bytes offset, Bytes size) {
    constexpr Bytes kLarge = Bytes{1} << 20U;
    constexpr std::size_t kLooked = 65536;
    if (size <= kLarge || offset > file.size() || size > file.size() - offset) {
        return;  // cheap to read, or refused by its reader
    }
    std::vector<std::byte> first(kLooked);
    file.read_at(offset, first);
    Bytes consumed = 0;
    try {
        consumed = Pickle::parse(std::move(first)).consumed();
    } catch (const PickleCutShort&) {
        return;
    }
    throw Error(ErrorCode::corrupt, "pickle: it ends after " + std::to_string(consumed) + " of " +
                                        std::to_string(size) +
                                        " bytes: zeros or other bytes lie behind it");
}

std::vector<std::byte> read_pickle(const fs::path& path) {
    {
        const auto file = io::InputFile::open(path);
        check_start(file, 0, file.size());
    }
    return io::read_bytes(path, kMaxPickleBytes);
}

void throw_no_memory(const fs::path& path) {
    std::error_code failed;
    const auto size = fs::file_size(path, failed);
    throw Error(ErrorCode::memory,
                "memory ran out while the file " + path.string() +
                    (failed ? std::string() : " of " + human_bytes(size)) + " was examined",
                "give the job more memory per rank, or fewer ranks on a node");
}

}  // namespace shardweld::formats
