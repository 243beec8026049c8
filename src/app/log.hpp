// Messages for people, with levels.
// Knows a stream and whether this process may speak; knows nothing of what is said.
#pragma once

#include <ostream>
#include <string_view>

namespace shardweld::app {

enum class LogLevel { error, warning, info, debug };

/// Writes messages up to a level as "shardweld: ...". On ranks other than 0 it is made mute, so
/// that every message appears once.
class Log {
  public:
    Log(std::ostream& out, LogLevel level, bool is_speaker)
        : out_(&out), level_(level), is_speaker_(is_speaker) {}

    void error(std::string_view text);
    void warning(std::string_view text);
    void info(std::string_view text);
    void debug(std::string_view text);

    /// Whether messages of this level are written.
    [[nodiscard]] bool shows(LogLevel level) const { return is_speaker_ && level <= level_; }
    [[nodiscard]] std::ostream& stream() const { return *out_; }

  private:
    void say(LogLevel level, std::string_view prefix, std::string_view text);

    std::ostream* out_;
    LogLevel level_;
    bool is_speaker_;
};

}  // namespace shardweld::app
