#include "polite.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app::watching {

namespace {

constexpr int kNicest = 19;

// ioprio_set(2). They stand here since <linux/ioprio.h> of Debian 12's kernel 6.1.192 has a
// parameter named `class`, which no C++ compiler takes.
constexpr int kOneProcess = 1;          // IOPRIO_WHO_PROCESS
constexpr int kIdlePriority = 3 << 13;  // IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)

}  // namespace

void be_polite() {
    (void)::setpriority(PRIO_PROCESS, 0, kNicest);
    (void)::syscall(SYS_ioprio_set, kOneProcess, 0, kIdlePriority);
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

}  // namespace shardweld::app::watching
