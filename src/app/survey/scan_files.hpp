// Reads the metadata of this rank's own files. Knows how a format scans one; nothing of the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"

namespace shardweld::app {

/// What each of `files` holds, in their order. Two threads take turns where there are many files
/// and `has_spare_core`: each takes milliseconds to open on a parallel file system. `on_file` is
/// called by this thread only, before each file that it takes, with the number of files begun.
/// Errors as Format::scan: of the first file that has one, whoever reads it.
std::vector<catalogue::Catalogue> scan_files(const formats::Location& location,
                                             const std::vector<std::string>& files,
                                             bool has_spare_core,
                                             const std::function<void(Index n_begun)>& on_file);

}  // namespace shardweld::app
