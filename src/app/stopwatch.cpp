#include "stopwatch.hpp"

#include <chrono>
#include <ctime>

namespace shardweld::app {

namespace {

double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

Stopwatch::Stopwatch() : wall_(wall_seconds()), cpu_(cpu_seconds()) {}

Phase& Stopwatch::lap(const std::string& name) {
    const double wall = wall_seconds();
    const double cpu = cpu_seconds();
    phases_.push_back({name, wall - wall_, cpu - cpu_, 0, 0, 0});
    wall_ = wall;
    cpu_ = cpu;
    return phases_.back();
}

}  // namespace shardweld::app
