#include "shardweld/io/paths.hpp"

#include "shardweld/io/errno.hpp"

namespace shardweld::io {

fs::path resolved(const fs::path& path) {
    std::error_code failed;
    fs::path whole = fs::weakly_canonical(fs::absolute(path), failed);
    if (failed) {
        throw_errno(failed.value(), "resolve", path);
    }
    return whole.has_filename() ? whole : whole.parent_path();
}

fs::path without_dots(const fs::path& path) {
    fs::path result;
    for (const fs::path& part : fs::absolute(path)) {
        if (part == "..") {
            result = resolved(result).parent_path();
        } else if (!part.empty() && part != ".") {
            result /= part;
        }
    }
    return result;
}

bool is_within(const fs::path& path, const fs::path& directory) {
    const fs::path relative = path.lexically_relative(directory);
    return !relative.empty() && *relative.begin() != "..";
}

}  // namespace shardweld::io
