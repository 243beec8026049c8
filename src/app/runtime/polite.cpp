#include "polite.hpp"

#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

namespace {

constexpr int kNicest = 19;

}  // namespace

void be_polite() {
    (void)::setpriority(PRIO_PROCESS, 0, kNicest);
    (void)::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

void leave_cache(const fs::path& output) {
    (void)mpi::error_of([&] {
        for (const fs::directory_entry& entry : io::entries_below(output)) {
            if (entry.is_regular_file()) {
                const io::InputFile file = io::InputFile::open(entry.path());
                file.forget(0, file.size());
            }
        }
    });
}

}  // namespace shardweld::app
