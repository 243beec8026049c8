// One rank's own log file: all messages with their times, whatever standard error shows.
// Knows a file and the clock; nothing of what is said.
#pragma once

#include <mutex>
#include <string_view>

#include "core/path.hpp"

namespace shardweld::app {

class RankLog {
  public:
    /// Opens rank-0003.log in `directory` (made where it is missing) for appending: runs follow
    /// each other. Error(target) when something else than a file has the name, links included;
    /// Error(io), Error(space).
    RankLog(const fs::path& directory, int rank);
    ~RankLog();
    RankLog(const RankLog&) = delete;
    RankLog& operator=(const RankLog&) = delete;
    RankLog(RankLog&&) = delete;
    RankLog& operator=(RankLog&&) = delete;

    /// Adds a line with the time (UTC) before it, in one write(2): nothing is left in a buffer when
    /// the process dies. What cannot be written is lost: a log ends no merge. Any thread.
    void write(std::string_view text);

  private:
    std::mutex mutex_;
    int fd_ = -1;
};

}  // namespace shardweld::app
