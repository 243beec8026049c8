#include "mounts.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <mntent.h>
#include <string_view>

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "process/process.hpp"

namespace shardweld::app {

std::vector<ModelMount> model_mounts() {
    std::vector<ModelMount> mounts;
    const std::unique_ptr<FILE, int (*)(FILE*)> list(::setmntent("/proc/self/mounts", "r"),
                                                     ::endmntent);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads yet
    while (const mntent* const row = list ? ::getmntent(list.get()) : nullptr) {
        if (std::string_view(row->mnt_type) == "fuse.shardweld") {
            mounts.push_back({row->mnt_dir, row->mnt_fsname});
        }
    }
    return mounts;
}

bool is_dead_mount(const fs::path& point) {
    // The kernel may know what stat(2) tells without asking.
    const int opened = ::open(point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) {
        return errno == ENOTCONN || errno == ECONNABORTED;
    }
    (void)::close(opened);
    return false;
}

int take_away(const fs::path& point) {
    const bool is_dead = is_dead_mount(point);  // whatever holds it gets nothing any more
    if (::umount2(point.c_str(), UMOUNT_NOFOLLOW | (is_dead ? MNT_DETACH : 0)) == 0) {
        return 0;
    }
    const int why = errno;
    const auto helper = process::find_program("fusermount3");
    if (why != EPERM || !helper) {
        return why;
    }
    process::Process process;
    process.program = *helper;
    process.arguments = {is_dead ? "-uz" : "-u", "--", point.string()};
    const auto ending = process::run(process);
    return ending && ending->is_success() ? 0 : EBUSY;
}

}  // namespace shardweld::app
