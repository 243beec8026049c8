// Any bytes as a rank's file of a format, from its scan to the joined catalogue.
// Knows formats and what every piece must keep to; knows no format's files.
#pragma once

#include <string>
#include <utility>

#include "shardweld/formats/format.hpp"

#include "expect.hpp"
#include "input_file.hpp"

namespace shardweld::fuzz {

/// `location` has one shard file, which leads to the bytes. Each piece must lie inside its tensor
/// and its storage.
inline void scan_and_combine(const formats::Location& location) {
    const formats::Format& format = formats::format_of(location);
    auto catalogue = format.scan(location, location.shard_files.front());
    const Bytes size = catalogue.files.front().size;
    for (const auto& tensor : catalogue.tensors) {
        for (const auto& piece : tensor.pieces) {
            require_inside(piece, tensor.shape, tensor.dtype, size);
        }
    }
    for (const auto& shard : catalogue.shards) {
        require_inside(shard.piece, shard.shape, shard.dtype, size);
    }
    static_cast<void>(format.combine(location, {std::move(catalogue)}));
}

/// Where a format finds one file, `name`, that holds what file_with put there last.
inline formats::Location location_of(const std::string& format, const std::string& name) {
    static const LinkDirectory directory(name);
    formats::Location location;
    location.format = format;
    location.directory = directory.path();
    location.shard_files = {name};
    return location;
}

}  // namespace shardweld::fuzz
