#include "exit_limit.hpp"

#include <csignal>

#include <unistd.h>

namespace shardweld::app {

namespace {

volatile std::sig_atomic_t exit_code = 0;

void end_now(int) {
    ::_exit(exit_code);
}

}  // namespace

void ExitLimit::begin(int code) {
    exit_code = code;
    (void)std::signal(SIGALRM, end_now);
    ::alarm(kExitLimit_s);
}

ExitLimit::~ExitLimit() {
    ::alarm(0);
    (void)std::signal(SIGALRM, SIG_DFL);
}

}  // namespace shardweld::app
