#include "step_files.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

#include <sys/stat.h>

#include "io/digest.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app::watching {

namespace {

// The deepest known is checkpoint-N/iter_N/dist_ckpt; a step's directory may hold anything.
constexpr int kDeepestStep = 6;

std::vector<fs::directory_entry> entries_if_there(const fs::path& directory) {
    try {
        return io::entries_of(directory);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) {
            throw;
        }
        return {};
    }
}

void add_files(const fs::path& directory, const std::string& prefix, int depth,
               std::vector<StepFile>& files) {
    for (const fs::directory_entry& entry : entries_if_there(directory)) {
        const std::string path = prefix + entry.path().filename().string();
        std::error_code gone;
        struct stat status {};
        if (entry.is_directory(gone)) {
            if (depth < kDeepestStep && !entry.is_symlink(gone)) {
                add_files(entry.path(), path + "/", depth + 1, files);
            }
        } else if (::stat(entry.path().c_str(), &status) == 0) {
            files.push_back({path, io::stamp_of(status, entry.path().c_str())});
        } else if (!io::means_absent(errno)) {
            io::throw_errno(errno, "examine", entry.path());
        }
    }
}

}  // namespace

const StepFile* StepFiles::find(std::string_view path) const {
    const auto found = std::ranges::lower_bound(files, path, {}, &StepFile::path);
    return found != files.end() && found->path == path ? &*found : nullptr;
}

std::string StepFiles::print() const {
    std::string text;
    for (const auto& [path, stamp] : files) {
        text += path;
        text += '\0';
        for (const Index number : {static_cast<Index>(stamp.size), stamp.modified_ns,
                                   stamp.changed_ns, static_cast<Index>(stamp.inode)}) {
            text += std::to_string(number) + " ";
        }
    }
    return io::hex(io::digest_of(std::as_bytes(std::span(text))));
}

StepFiles files_of(const fs::path& step) {
    StepFiles found;
    add_files(step, "", 0, found.files);
    std::ranges::sort(found.files, {}, &StepFile::path);
    return found;
}

}  // namespace shardweld::app::watching
