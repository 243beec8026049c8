#include "links.hpp"

#include <algorithm>
#include <system_error>

namespace shardweld::io {

namespace {

bool is_below(const fs::path& path, const fs::path& root) {
    return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

/// The blobs of the cached repository that a snapshot's directory lies in; "" for others.
/// Source: huggingface_hub 1.x, file_download.py (layout of the cache).
fs::path blobs_for(const fs::path& root) {
    const fs::path snapshots = root.parent_path();
    return snapshots.filename() == "snapshots" ? snapshots.parent_path() / "blobs" : fs::path();
}

}  // namespace

fs::path home_of(const fs::path& end, const fs::path& root) {
    if (is_below(end, root)) {
        return root;
    }
    const fs::path blobs = blobs_for(root);
    return !blobs.empty() && is_below(end, blobs) ? blobs : fs::path();
}

std::optional<fs::path> leads_out_of(const fs::path& path, const fs::path& root) {
    std::error_code failed;
    const fs::path real_root = fs::canonical(root, failed);
    const fs::path end = failed ? fs::path() : fs::canonical(path, failed);
    return failed || !home_of(end, real_root).empty() ? std::nullopt : std::optional(end);
}

}  // namespace shardweld::io
