// Waiting for something to change in directories: the kernel tells of it at once where it can, on
// other file systems the time is simply waited out.
#pragma once

#include <functional>

#include "core/path.hpp"

namespace shardweld::app::watching {

class Wake {
  public:
    Wake();
    ~Wake();
    Wake(const Wake&) = delete;
    Wake& operator=(const Wake&) = delete;
    Wake(Wake&&) = delete;
    Wake& operator=(Wake&&) = delete;

    /// Be told of what comes, goes and is written in this directory; does nothing where that cannot
    /// be.
    void follow(const fs::path& directory) const;

    /// Waits `most_s`, or, once `least_s` are over, until something has changed. `is_over` ends it
    /// within a tenth of a second.
    void wait(double least_s, double most_s, const std::function<bool()>& is_over);

  private:
    [[nodiscard]] bool drain() const;

    int fd_;
};

}  // namespace shardweld::app::watching
