#include "stopwatch.hpp"

#include "core/system.hpp"

namespace shardweld::app {

Stopwatch::Stopwatch() : wall_(wall_seconds()), cpu_(cpu_seconds()) {}

Phase& Stopwatch::lap(const std::string& name) {
    const double wall = wall_seconds();
    const double cpu = cpu_seconds();
    (void)peak_bytes();
    phases_.push_back({name, wall - wall_, cpu - cpu_, 0, 0, 0});
    wall_ = wall;
    cpu_ = cpu;
    if (on_lap_) {
        on_lap_(phases_.back());
    }
    return phases_.back();
}

}  // namespace shardweld::app
