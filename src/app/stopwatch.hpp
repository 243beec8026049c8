// Wall and processor time of the parts of a run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report.hpp"

namespace shardweld::app {

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
