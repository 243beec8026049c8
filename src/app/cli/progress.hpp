// How far the merge is: bytes, percent, speed and the time left.
// Knows numbers, a stream and a clock; knows nothing of plans or ranks.
#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "shardweld/core/index.hpp"

namespace shardweld::app {

/// Seconds from an arbitrary start.
using Clock = std::function<double()>;
Clock steady_clock();

/// What progress is measured against. Ranks advance alike, so this rank's part of its own share
/// stands for the whole.
struct Workload {
    Bytes total = 0;  ///< bytes of the output
    Bytes share = 0;  ///< of these, this rank's
    /// Where each tensor begins among the bytes, and the end behind them; empty: tensors are not
    /// counted.
    std::vector<Bytes> begins = {};
};

enum class ProgressStyle {
    silent,
    lines,    ///< a plain line every ten seconds and one at the end
    redrawn,  ///< one line, drawn again and again: a terminal
};

class Progress {
  public:
    Progress(std::ostream& out, ProgressStyle style, Workload work, Clock clock);

    /// `done` bytes of this rank's share are finished.
    void update(Bytes done);
    /// The last line, with the whole output and the mean speed.
    void finish();

  private:
    void show(Bytes done, double now);
    [[nodiscard]] std::string tensors_text(Bytes done) const;

    std::ostream* out_;
    ProgressStyle style_;
    Workload work_;
    Clock clock_;
    double start_;
    double shown_;  ///< when a line was last written
    std::size_t drawn_width_ = 0;
};

}  // namespace shardweld::app
