#include <algorithm>
#include <cerrno>

#include <sys/statvfs.h>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/publish/target.hpp"

#include "places.hpp"

namespace shardweld::publish {

namespace {

/// The directory without a trailing slash, links resolved as far as it exists.
fs::path resolved(const fs::path& path) {
    std::error_code failed;
    fs::path whole = fs::weakly_canonical(fs::absolute(path), failed);
    if (failed) {
        io::throw_errno(failed.value(), "resolve", path);
    }
    return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether `path` is `directory` or lies below it; both resolved.
bool is_within(const fs::path& path, const fs::path& directory) {
    const fs::path relative = path.lexically_relative(directory);
    return !relative.empty() && *relative.begin() != "..";
}

[[noreturn]] void refuse(const fs::path& target, const std::string& why) {
    throw Error(ErrorCode::target, "the target directory " + target.string() + " " + why);
}

void refuse_below_file(const fs::path& target) {
    std::error_code failed;
    for (fs::path above = target.parent_path(); above != target.root_path();
         above = above.parent_path()) {
        if (fs::exists(above, failed) && !fs::is_directory(above, failed)) {
            refuse(target, "cannot be made: " + above.string() + " is a file");
        }
    }
}

/// Whether a directory holds more than the traces of an unfinished run.
bool has_content(const fs::path& directory) {
    try {
        const fs::directory_iterator entries(directory);
        return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
            const fs::path name = entry.path().filename();
            return name != kPartialInside && name != kLockInside;
        });
    } catch (const fs::filesystem_error& error) {
        io::throw_errno(error.code().value(), "read directory", directory);
    }
}

void check_inputs(const fs::path& target, const std::vector<fs::path>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const fs::path input = resolved(inputs[i]);
        if (target == input) {
            refuse(target, "is read as input: choose another --target_dir");
        }
        if (is_within(input, target)) {
            refuse(target,
                   "contains the input " + input.string() + ": choose another --target_dir");
        }
        if (i == 0 && is_within(target, input)) {
            refuse(target, "lies inside the checkpoint " + input.string() +
                               ": choose a --target_dir outside of it");
        }
    }
}

}  // namespace

fs::path checked_target(const TargetRequest& request) {
    if (request.target.empty()) {
        throw Error(ErrorCode::usage, "--target_dir is empty: name the directory to write");
    }
    fs::path target = resolved(request.target);
    std::error_code failed;
    const fs::file_status status = fs::status(target, failed);
    if (fs::is_symlink(fs::symlink_status(target, failed)) && !fs::exists(status)) {
        refuse(target, "is a link to nothing: remove the link or name a directory");
    }
    if (fs::exists(status) && !fs::is_directory(status)) {
        refuse(target, "is a file, not a directory: choose another --target_dir");
    }
    if (target == target.root_path()) {
        refuse(target, "is the root of the file system: choose another --target_dir");
    }
    refuse_below_file(target);
    check_inputs(target, request.inputs);
    if (fs::exists(status) && has_content(target) && !request.overwrite) {
        refuse(target,
               "exists and is not empty: choose another one, or replace it with --overwrite");
    }
    return target;
}

void check_space(const fs::path& directory, Bytes bytes, Index n_files) {
    struct statvfs space {};
    if (::statvfs(directory.c_str(), &space) != 0) {
        io::throw_errno(errno, "ask for the free space of", directory);
    }
    const Bytes available = Bytes{space.f_bavail} * Bytes{space.f_frsize};
    if (available < bytes) {
        throw Error(ErrorCode::space, "the file system of " + directory.string() + " has " +
                                          human_bytes(available) + " free; the output needs " +
                                          human_bytes(bytes) +
                                          ": free space or choose another --target_dir");
    }
    // File systems without a table of inodes report none at all.
    if (space.f_files != 0 && Bytes{space.f_favail} < static_cast<Bytes>(n_files)) {
        throw Error(ErrorCode::space,
                    "the file system of " + directory.string() + " has " +
                        std::to_string(space.f_favail) + " free inodes; the output needs " +
                        std::to_string(n_files) + ": remove files or raise --max_shard_size");
    }
}

}  // namespace shardweld::publish
