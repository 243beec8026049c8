// Wall and processor time of the parts of a run.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"

namespace shardweld::app {

/// One part of the run. Times stand here (and in a report's Roof) only, so that everything else of
/// two equal runs is equal.
struct Phase {
    std::string name;  ///< "survey", "plan", "execute", "publish", ...
    double wall_s = 0;
    double cpu_s = 0;
    Bytes bytes_read = 0;
    Bytes bytes_written = 0;
    Bytes bytes_sent = 0;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.wall_s, self.cpu_s, self.bytes_read, self.bytes_written,
                        self.bytes_sent);
    };
};

/// Times phases one after another and keeps what they took.
class Stopwatch {
  public:
    Stopwatch();
    /// From now on every phase is told at its end.
    void tell(std::function<void(const Phase&)> on_lap) { on_lap_ = std::move(on_lap); }
    /// Ends the current phase under this name; the next one begins.
    Phase& lap(const std::string& name);
    [[nodiscard]] const std::vector<Phase>& phases() const { return phases_; }

  private:
    double wall_;
    double cpu_;
    std::vector<Phase> phases_;
    std::function<void(const Phase&)> on_lap_;
};

}  // namespace shardweld::app
