// Holds reading and writing back to a given speed.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "core/index.hpp"

namespace shardweld::io {

/// A speed that several threads keep to together.
class Throttle {
  public:
    /// Requires a positive speed. Once `is_stopping` (safe from any thread; may be empty) says so
    /// nothing waits any more: what is in hand is brought to its end.
    explicit Throttle(double bytes_per_s, std::function<bool()> is_stopping = {});

    /// Asks `is_stopping` from now on, twenty times a second while somebody waits. Before other
    /// threads take bytes.
    void stop_when(std::function<bool()> is_stopping) { is_stopping_ = std::move(is_stopping); }

    /// Waits until the bytes taken so far, these included, are due: n bytes take n / speed seconds
    /// at least since the throttle was made. At most a second's bytes of time not used before are
    /// made up for. Any thread.
    void wait_for(Bytes bytes);

  private:
    std::mutex mutex_;
    double bytes_per_s_;
    double due_s_;  ///< when the bytes taken so far are due, by the monotonic clock
    std::function<bool()> is_stopping_;
};

}  // namespace shardweld::io
