#include "log.hpp"

#include <string>

namespace shardweld::app {

void Log::say(LogLevel level, std::string_view prefix, std::string_view text) {
    if (own_) {
        own_->write(std::string(prefix).append(text));
    }
    if (!shows(level)) {
        return;
    }
    // One write: launchers mix the lines of several processes.
    std::string line = "shardweld: ";
    line.append(prefix).append(text).append("\n");
    *out_ << line << std::flush;
}

void Log::error(std::string_view text) {
    say(LogLevel::error, "error: ", text);
}
void Log::warning(std::string_view text) {
    say(LogLevel::warning, "warning: ", text);
}
void Log::info(std::string_view text) {
    say(LogLevel::info, "", text);
}
void Log::debug(std::string_view text) {
    say(LogLevel::debug, "", text);
}

void Log::note(std::string_view text) {
    if (own_) {
        own_->write(text);
    }
}

Log Log::aloud() const {
    Log log = *this;
    log.is_speaker_ = true;
    return log;
}

}  // namespace shardweld::app
