// Files that the Hub is sent before the model that they belong to is finished.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "upload.hpp"

namespace shardweld::upload {

/// The Python that a client is written in, which has huggingface_hub: what the first line of the
/// program names, in pip's form for long paths, too (pip 24: `#!/bin/sh` and 'exec' in the second
/// line). nullopt where it is another program. `path`: as PATH.
std::optional<fs::path> python_of(const fs::path& client, const std::string& path);

/// Sends a file of weights to the repository of `request`, made if there is none, as its revision
/// is, without a commit: HfApi.preupload_lfs_files (huggingface_hub 0.17 to 2.4). The commit that
/// names it later finds it there. `is_over` ends the client. Errors as upload().
void send_ahead(const UploadRequest& request, const Access& access, const fs::path& python,
                const std::string& name, const std::function<bool()>& is_over);

}  // namespace shardweld::upload
