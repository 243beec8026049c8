#include "mount_point.hpp"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "app/runtime/mounts.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::mount {

namespace {

[[noreturn]] void refuse(const fs::path& point, const std::string& why, const std::string& hint) {
    throw Error(ErrorCode::target, "the mount point " + printable(point.string()) + " " + why,
                hint);
}

[[noreturn]] void refuse_system(const std::string& what, const std::string& remedy) {
    throw Error(ErrorCode::unsupported, what, remedy + "; without a mount " + app::kInsteadOfMount);
}

void require_fuse() {
    const bool is_root = ::geteuid() == 0;
    const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device >= 0) {
        (void)::close(device);
    } else if (is_root || errno == ENOENT || errno == ENODEV || errno == ENXIO) {
        refuse_system("cannot open /dev/fuse: " + text_of_errno(errno),
                      "load the kernel's module (modprobe fuse), or give the container the device "
                      "(--device /dev/fuse --cap-add SYS_ADMIN)");
    }
    if (!is_root && !process::find_program("fusermount3")) {
        refuse_system("there is no fusermount3 on PATH, by which users mount",
                      "install it (Debian: fuse3)");
    }
}

void require_apart(const fs::path& point, const app::Job& job) {
    auto read = collect_list<fs::path>(job.inputs, &formats::JobInput::directory);
    if (job.model.hf_config) {
        read.push_back(*job.model.hf_config);
    }
    for (const fs::path& one : read) {
        if (!one.empty() && io::is_within(point, io::resolved(one))) {
            refuse(point, "lies in what is read, " + printable(one.string()),
                   "name a directory outside of it");
        }
    }
}

}  // namespace

fs::path checked_point(const app::Job& job) {
    const fs::path& given = job.outputs.front().directory;
    if (app::is_dead_mount(given)) {
        refuse(given, "has a mount whose process was killed",
               "take it away: shardweld unmount " + process::shell_word(given.string()));
    }
    const fs::path point = io::resolved(given);
    const io::FileKind kind = io::kind_at(point);
    if (kind == io::FileKind::none) {
        refuse(point, "is not there", "make it: mkdir -p " + process::shell_word(point.string()));
    }
    if (kind != io::FileKind::directory) {
        refuse(point, "is no directory", "name an empty directory");
    }
    for (const app::ModelMount& one : app::model_mounts()) {
        if (one.point == point) {
            refuse(point, "has a model already, of " + printable(one.source),
                   "unmount that, or name another directory");
        }
    }
    require_apart(point, job);
    if (!io::entries_of(point).empty()) {
        refuse(point, "is not empty", "name an empty directory");
    }
    if (::eaccess(point.c_str(), W_OK | X_OK) != 0) {
        refuse(point, "may not be written: " + text_of_errno(errno),
               "name a directory of your own");
    }
    require_fuse();
    return point;
}

}  // namespace shardweld::mount
