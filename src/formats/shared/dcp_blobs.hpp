// Tensors inside shard files: each chunk is a torch.save archive of its own within a .distcp file.
// Knows how chunk and archive correspond; nothing of what keys mean.
// Source: torch 2.15 torch/distributed/checkpoint/filesystem.py (_write_item).
#pragma once

#include <functional>
#include <span>

#include "shardweld/formats/format.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats {

/// Opens the archives of all unlocated pieces in `files`; `before_file` is called at each.
/// Error(corrupt) when one is no archive of a tensor or lies outside its file, Error(mismatch) when
/// dtype or shape are not those of the index.
Resolution locate_blobs(const Location& location, const catalogue::Catalogue& catalogue,
                        std::span<const std::uint32_t> files,
                        const std::function<void()>& before_file);

}  // namespace shardweld::formats
