// Tensors inside shard files: each chunk is a torch.save archive of its own within a .distcp file,
// or its elements alone. Knows how chunk and archive correspond; nothing of what keys mean.
// Sources: torch 2.15 torch/distributed/checkpoint/filesystem.py (_write_item); bytecheckpoint
// 0.0.2 bytecheckpoint/engine/store_engine.py.
#pragma once

#include <functional>
#include <span>

#include "formats/format.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats {

enum class Blobs { archives, bare };

/// Opens the archives of all unlocated pieces in `files`; `before_file` is called at each.
/// Bare blobs are only held against their files' sizes: their pieces have their strides already.
/// Error(corrupt) when one is no archive of a tensor or lies outside its file, Error(mismatch) when
/// dtype or shape are not those of the index.
Resolution locate_blobs(const Location& location, const catalogue::Catalogue& catalogue,
                        std::span<const std::uint32_t> files,
                        const std::function<void()>& before_file, Blobs blobs = Blobs::archives);

}  // namespace shardweld::formats
