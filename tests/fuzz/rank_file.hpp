// Any bytes as a rank's file of a format, from its scan to the joined catalogue.
// Knows formats and what every piece must keep to; knows no format's files.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "formats/format.hpp"
#include "formats/shared/directory_listing.hpp"

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

/// All files of a location, of which each piece must lie inside its tensor and its storage in a
/// file of `size` bytes.
inline void scan_and_join(const formats::Location& location, Bytes size) {
    const formats::Format& format = formats::format_of(location);
    std::vector<formats::Scan> scans;
    for (const std::string& file : format.scan_list(location)) {
        scans.push_back(format.scan(location, file));
    }
    const auto catalogue = format.combine(location, std::move(scans));
    for (const auto& tensor : catalogue.tensors) {
        for (const auto& piece : tensor.pieces) {
            require_inside(piece, tensor.shape, tensor.dtype, size);
        }
    }
}

/// A new directory in which each name leads to what file_with put there last.
inline std::filesystem::path directory_with(const std::vector<std::string>& names) {
    static const LinkDirectory directory("link");
    static int n_directories = 0;
    const auto path = directory.path() / std::to_string(n_directories++);
    for (const std::string& name : names) {
        std::filesystem::create_directories((path / name).parent_path());
        std::filesystem::create_symlink(input_path(), path / name);
    }
    return path;
}

/// What a format finds in a directory.
inline formats::Location found_in(const std::filesystem::path& path, const std::string& format) {
    formats::Location location;
    location.format = format;
    return formats::format_of(location).probe(path, formats::list_directory(path)).value();
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
