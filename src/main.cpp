#include <csignal>
#include <malloc.h>

#include "app/commands/program.hpp"

int main(int argc, char** argv) {
    // A file-size limit then shows as an error of the write (EFBIG), which is reported and cleaned
    // up after.
    (void)std::signal(SIGXFSZ, SIG_IGN);
    // Threads that read metadata mostly wait: a heap of its own for each would be memory for
    // nothing.
    (void)::mallopt(M_ARENA_MAX, 2);
    return shardweld::app::run_program({argv, argv + argc});
}
