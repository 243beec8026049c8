// The official client as a program.
// Knows its names and arguments; knows nothing of what it says when it fails.
#pragma once

#include <string>
#include <vector>

#include "process/process.hpp"

#include "request.hpp"

namespace shardweld::upload {

/// The client that was asked for, else the first on PATH that can upload. Error(no_client) says
/// which were tried and what is wrong with the first; secrets replaced.
fs::path find_client(const std::optional<fs::path>& given, const Environment& environment,
                     const std::vector<std::string>& secrets);

/// The process that creates the repository, if there is none, and uploads the directory.
process::Process upload_process(const UploadRequest& request, const fs::path& client);

}  // namespace shardweld::upload
