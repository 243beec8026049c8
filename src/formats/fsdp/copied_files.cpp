#include "copied_files.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::formats::fsdp {

namespace {

using catalogue::Catalogue;

/// Part of a tensor: number of the tensor, bytes and CRC-32 of the storage.
using PartContent = std::tuple<std::size_t, Bytes, std::uint32_t>;

// Ones and zeros fill many tensors, and so does a constant; contents of one size that differ so
// often come from training.
constexpr std::size_t kLeastContents = 4;

std::vector<std::vector<PartContent>> parts_of_files(const Catalogue& catalogue) {
    std::vector<std::vector<PartContent>> parts(catalogue.files.size());
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) {
        const catalogue::Tensor& tensor = catalogue.tensors[t];
        for (const catalogue::Piece& piece : tensor.pieces) {
            if (piece.replica == 0 && tensor.pieces.size() > 1) {
                parts.at(piece.file).emplace_back(t, piece.storage_bytes, piece.crc32);
            }
        }
    }
    return parts;
}

bool are_distinctive(const std::vector<PartContent>& parts) {
    std::map<Bytes, std::set<std::uint32_t>> contents;
    bool is_stated = true;
    for (const auto& [tensor, bytes, crc32] : parts) {
        is_stated = is_stated && crc32 != 0;
        contents[bytes].insert(crc32);
    }
    return is_stated && std::any_of(contents.begin(), contents.end(), [](const auto& of_size) {
               return of_size.second.size() >= kLeastContents;
           });
}

}  // namespace

void refuse_copies(const Catalogue& catalogue) {
    const auto parts = parts_of_files(catalogue);
    std::map<std::vector<PartContent>, std::size_t> seen;
    for (std::size_t file = 0; file < parts.size(); ++file) {
        const auto [at, is_new] = seen.emplace(parts[file], file);
        if (!is_new && are_distinctive(parts[file])) {
            throw Error(ErrorCode::mismatch,
                        printable(catalogue.files[at->second].path) + " and " +
                            printable(catalogue.files[file].path) +
                            " hold the same bytes for all " + std::to_string(parts[file].size()) +
                            " parts of tensors that they share",
                        "copy both again from where they were saved: one was copied over another "
                        "rank's file");
        }
    }
}

}  // namespace shardweld::formats::fsdp
