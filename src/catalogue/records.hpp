// The records (whole storages with a checksum of their own) that a checkpoint's pieces lie in.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/index.hpp"

namespace shardweld::catalogue {

struct Catalogue;

/// The record of one storage, which may hold several tensors or parts of some.
struct StorageRecord {
    std::uint32_t file = 0;    ///< index into the catalogue's files
    std::uint32_t crc32 = 0;   ///< of all its bytes; 0 where none is stated
                               ///< (torch.serialization.set_crc32_options(False))
    Bytes offset = 0;          ///< in the file
    Bytes bytes = 0;           ///< more than none
    std::uint32_t tensor = 0;  ///< one that lies in it: index into Records::tensors
};

/// The records of all files of a checkpoint that state a checksum.
struct Records {
    std::vector<StorageRecord> all;  ///< in file order, each once, none reaching into the next
    std::vector<std::string_view> tensors;  ///< names, which last longer
    std::vector<std::size_t> begins;  ///< by file: its first record; then where the last one ends

    /// All but the names, which another process has elsewhere.
    static constexpr auto fields = [](auto& self) { return std::tie(self.all, self.begins); };

    /// The record that the byte of a file lies in.
    [[nodiscard]] std::optional<std::uint32_t> at(std::uint32_t file, Bytes byte) const;
    /// The first record that does not end before the byte of a file.
    [[nodiscard]] std::size_t first_behind(std::uint32_t file, Bytes byte) const;
};

/// The records of all pieces. Where some overlap, which no format writes, the first stays and
/// states no checksum. Pure.
Records records_of(const Catalogue& catalogue);

/// Sets `begins` as `all` has it.
void index_files(Records& records);

/// Puts the records of later files behind.
void append(Records& records, const Records& later);

}  // namespace shardweld::catalogue
