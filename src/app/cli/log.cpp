#include "log.hpp"

#include <string>

namespace shardweld::app {

namespace {

/// Whatever a message quotes, no terminal is to obey it.
std::string without_controls(std::string text) {
    for (char& c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
            c = '?';
        }
    }
    return text;
}

}  // namespace

void Log::say(LogLevel level, std::string_view prefix, std::string_view text) {
    const std::string line = without_controls(std::string(prefix).append(text));
    if (own_) {
        own_->write(line);
    }
    if (!shows(level)) {
        return;
    }
    // One write: launchers mix the lines of several processes.
    *out_ << ("shardweld: " + line + "\n") << std::flush;
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
