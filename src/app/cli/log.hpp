// Messages for people, with levels.
// Knows a stream, whether this process may speak, and its own log; knows nothing of what is said.
#pragma once

#include <memory>
#include <ostream>
#include <string_view>

#include "rank_log.hpp"

namespace shardweld::app {

enum class LogLevel { error, warning, info, debug };

/// Writes messages up to a level as "shardweld: ...". On ranks other than 0 it is made mute, so
/// that every message appears once. With a log of the rank's own all messages of all levels go
/// there too.
class Log {
  public:
    Log(std::ostream& out, LogLevel level, bool is_speaker)
        : out_(&out), level_(level), is_speaker_(is_speaker) {}

    void error(std::string_view text);
    void warning(std::string_view text);
    void info(std::string_view text);
    void debug(std::string_view text);
    /// For the rank's own log alone: what this rank does, in detail. Any thread.
    void note(std::string_view text);

    void keep(std::shared_ptr<RankLog> own) { own_ = std::move(own); }
    [[nodiscard]] bool is_kept() const { return own_ != nullptr; }
    /// The same that speaks whatever its rank.
    [[nodiscard]] Log aloud() const;

    /// Whether messages of this level are written.
    [[nodiscard]] bool shows(LogLevel level) const { return is_speaker_ && level <= level_; }
    [[nodiscard]] std::ostream& stream() const { return *out_; }

  private:
    void say(LogLevel level, std::string_view prefix, std::string_view text);

    std::ostream* out_;
    LogLevel level_;
    bool is_speaker_;
    std::shared_ptr<RankLog> own_;
};

}  // namespace shardweld::app
