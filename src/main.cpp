#include <csignal>

#include "shardweld/app/program.hpp"

int main(int argc, char** argv) {
    // A file-size limit then shows as an error of the write (EFBIG), which is reported and cleaned
    // up after.
    (void)std::signal(SIGXFSZ, SIG_IGN);
    return shardweld::app::run_program({argv, argv + argc});
}
