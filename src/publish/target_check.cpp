#include <cerrno>

#include <unistd.h>

#include "core/lists.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "model_tree.hpp"
#include "room.hpp"
#include "target.hpp"
#include "traces.hpp"

namespace shardweld::publish {

namespace {

[[noreturn]] void refuse(const fs::path& target, const std::string& why,
                         const std::string& hint = "choose another --target_dir") {
    throw Error(ErrorCode::target, "the target directory " + target.string() + " " + why, hint);
}

void refuse_below_file(const fs::path& target) {
    for (fs::path above = target.parent_path(); above != target.root_path();
         above = above.parent_path()) {
        const io::FileKind kind = io::kind_at(above);
        if (kind != io::FileKind::none && kind != io::FileKind::directory) {
            refuse(target, "cannot be made: " + above.string() + " is a file");
        }
    }
}

/// Both resolved.
void refuse_nested(const fs::path& target, const fs::path& input) {
    if (io::is_within(input, target)) {
        refuse(target, "contains the input " + input.string());
    }
}

void check_inputs(const fs::path& target, const std::vector<fs::path>& inputs) {
    for (const fs::path& one : inputs) {
        const fs::path input = io::resolved(one);
        if (target == input) {
            refuse(target, "is read as input");
        }
        refuse_nested(target, input);
    }
}

/// Whether this user may make entries in a directory; else errno says why not.
bool is_writable(const fs::path& directory) {
    return ::eaccess(directory.c_str(), W_OK | X_OK) == 0;
}

/// The partial directory is made beside the target, or in it.
void check_writable(const fs::path& target) {
    const fs::path above = nearest_existing(target.parent_path());
    if (is_writable(above)) {
        return;
    }
    const std::string reason = std::generic_category().message(errno);
    if (above == target.parent_path() && fs::is_directory(target) && is_writable(target)) {
        return;
    }
    throw Error(ErrorCode::io,
                "the target directory " + target.string() +
                    " cannot be made: no right to write in " + above.string() + " (" + reason + ")",
                "choose another --target_dir");
}

/// --overwrite replaces models only, and is not proposed to who has named the checkpoint last: what
/// is no model, or stands where the input should be.
[[noreturn]] void refuse_full(const fs::path& target, const std::vector<fs::path>& inputs) {
    bool is_swapped = !inputs.empty() && io::kind_at(inputs.front()) == io::FileKind::none;
    try {
        require_model_only(target, target);
    } catch (const Error&) {
        is_swapped = true;
    }
    refuse(target, "exists and is not empty",
           is_swapped ? "choose another one; the checkpoint comes first: shardweld merge "
                        "CHECKPOINT OUT"
                      : "choose another one, or replace it with --overwrite");
}

/// Not in place, file by file.
bool is_replaced_whole(const fs::path& target, bool resume) {
    return holder_of(target) != target && !(resume && holds_work(target / kPartialTrace));
}

}  // namespace

void require_apart(const fs::path& target, const std::vector<fs::path>& files) {
    const fs::path whole = io::resolved(target);
    for (const fs::path& file : files) {
        refuse_nested(whole, io::resolved(file));
    }
}

fs::path checked_target(const fs::path& named, const std::vector<fs::path>& inputs, bool overwrite,
                        bool resume) {
    if (named.empty()) {
        throw Error(ErrorCode::usage, "--target_dir is empty", "name the directory to write");
    }
    fs::path target = io::resolved(named);
    std::error_code failed;
    const io::FileKind kind = io::kind_at(target);
    if (kind == io::FileKind::none && fs::is_symlink(fs::symlink_status(target, failed))) {
        refuse(target, "is a dangling link", "remove the link or name a directory");
    }
    if (kind != io::FileKind::none && kind != io::FileKind::directory) {
        refuse(target, "is a file, not a directory");
    }
    if (target == target.root_path()) {
        refuse(target, "is the root of the file system");
    }
    refuse_below_file(target);
    check_inputs(target, inputs);
    if (kind == io::FileKind::directory && overwrite && is_replaced_whole(target, resume)) {
        require_model_only(target, target);
    }
    if (kind == io::FileKind::directory && !overwrite && has_content(target) &&
        !(resume && is_half_published(target))) {
        refuse_full(target, inputs);
    }
    if (kind == io::FileKind::none && !overwrite && io::is_directory(beside(target, kOldTrace))) {
        refuse(target,
               "was being replaced by a run that was killed, and what it held is " +
                   beside(target, kOldTrace).string(),
               "rename it back, or replace it with --overwrite");
    }
    check_writable(target);
    return target;
}

fs::path holder_of(const fs::path& target) {
    const fs::path whole = io::resolved(target);
    const fs::path above = nearest_existing(whole.parent_path());
    const bool is_beside =
        !io::is_directory(whole) ||
        (!contains_current_directory(whole) && !is_mount_point(whole) && is_writable(above));
    return is_beside ? above : whole;
}

std::vector<fs::path> unfinished_work(const fs::path& target) {
    const fs::path whole = io::resolved(target);
    return {beside(whole, kPartialTrace), whole / kPartialTrace};
}

Bytes bytes_left_behind(const fs::path& target, bool resume) {
    const fs::path whole = io::resolved(target);
    Bytes bytes = add_up(unfinished_work(whole),
                         [](const fs::path& partial) { return disk_use(partial).bytes; });
    if (resume) {
        for (const fs::path& file : moved_files(whole)) {
            bytes += disk_use(whole / file).bytes;
        }
    }
    return bytes;
}

}  // namespace shardweld::publish
