// Files that the Hub is sent before the model that they belong to is finished.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "upload.hpp"

namespace shardweld::upload {

/// The Python that runs a client, if the client is the small program that installers make of
/// huggingface_hub's entry point and nothing else (pip 24, uv 0.5: `main` is imported and called):
/// what the first line names, in pip's form for long paths, too (`#!/bin/sh` and 'exec' in the
/// second line). nullopt where it is another program, which may do more. `path`: as PATH.
/// Error(io).
std::optional<fs::path> python_of(const fs::path& client, const std::string& path);

/// A file of weights that is sent before its model is finished.
struct EarlyFile {
    std::string name;
    bool is_first = false;  ///< repository and revision may be new, and are made
};

/// Sends the file to the repository of `request` without a commit: HfApi.preupload_lfs_files
/// (huggingface_hub 0.17 to 2.4). The commit that names it later finds it there. `is_over` ends the
/// client. Errors as upload().
void send_ahead(const UploadRequest& request, const Access& access, const fs::path& python,
                const EarlyFile& file, const std::function<bool()>& is_over);

}  // namespace shardweld::upload
