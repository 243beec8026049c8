// Checksums of what tensors leave of files, shared out among the ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/output_range.hpp"

#include "file_hashes.hpp"

namespace shardweld::app {

/// Where tensors lie in files, by the name of these relative to the model's directory.
using TensorsInFiles = std::map<std::string, std::vector<plan::OutputRange>>;

/// Collective. By file, the xxh3-128 of its bytes outside of tensors, in hex; nothing of one that
/// is not there. All ranks list the files alike. Error(io), Error(stopped).
std::map<std::string, std::string> rest_digests(const Run& run, const TensorsInFiles& files,
                                                const OpenFile& open, const mpi::WhyStop& why_stop);

/// What differs between the files whose rest a report has and the digests of the same files, for
/// people. Pure.
std::vector<std::string> rest_differences(const std::vector<FileEntry>& reported,
                                          const std::map<std::string, std::string>& found);

}  // namespace shardweld::app
