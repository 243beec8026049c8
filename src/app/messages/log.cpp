#include "log.hpp"

#include <nlohmann/json.hpp>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

std::string line(const char* label, const std::string& text) {
    return text.empty() ? "" : "\n  " + std::string(label) + text;
}

using nlohmann::ordered_json;

// Over the line as it is, whatever its length (ECMA-48: erase to its end).
constexpr const char* kEraseLine = "\r\x1b[K";

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

const char* prefix_of(LogLevel level) {
    return level == LogLevel::error ? "error: " : level == LogLevel::warning ? "warning: " : "";
}

const char* colour_of(LogLevel level) {
    return level == LogLevel::error ? "\x1b[1;31m" : "\x1b[33m";
}

const char* level_name(LogLevel level) {
    switch (level) {
        case LogLevel::error:
            return "error";
        case LogLevel::warning:
            return "warning";
        case LogLevel::info:
            return "info";
        case LogLevel::debug:
            return "debug";
    }
    return "";
}

std::string dumped(const ordered_json& json) {
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string hint_of(const Error& error) {
    if (!error.hint().empty()) {
        return error.hint();
    }
    switch (error.code()) {
        case ErrorCode::corrupt:
            return "copy the file again from where it was saved";
        case ErrorCode::internal:
            return "this is a fault of shardweld: please report it";
        default:
            return "";
    }
}

std::string below(const Error& error, bool has_detail) {
    return line("where: ", joined(error.context(), "; ")) + line("hint: ", hint_of(error)) +
           (has_detail ? line("detail: ", error.detail()) : "");
}

std::string text_of(const Error& error, bool has_detail) {
    return error.what() + below(error, has_detail);
}

void Log::say(LogLevel level, std::string_view text) {
    const std::string prefix = prefix_of(level);
    const std::string safe = without_controls(std::string(text));
    if (own_) {
        own_->write(prefix + safe);
    }
    if (!shows(level)) {
        return;
    }
    if (listener_ != nullptr) {
        listener_->message(level, safe);
        return;
    }
    if (is_json_) {
        write_object(dumped({{"event", "message"}, {"level", level_name(level)}, {"text", safe}}));
        return;
    }
    const bool is_coloured = !prefix.empty() && terminal_ != nullptr && terminal_->has_colours();
    write("shardweld: " + (is_coloured ? colour_of(level) + prefix + "\x1b[0m" : prefix) + safe +
          "\n");
}

/// One write: launchers mix the lines of several processes.
void Log::write(const std::string& text) {
    *out_ << (has_live_line_ ? kEraseLine + text : text) << std::flush;
    has_live_line_ = false;
}

void Log::draw(const std::string& line) {
    if (out_ == nullptr) {
        return;
    }
    if (!line.empty() || has_live_line_) {
        *out_ << kEraseLine + line << std::flush;
    }
    has_live_line_ = !line.empty();
}

void Log::write_object(const std::string& json) {
    write(json + "\n");
}

void Log::error(const Error& error) {
    if (is_json_ && shows(LogLevel::error)) {
        note("error: " + error.full_text());
        write_object(dumped({{"event", "error"},
                             {"code", static_cast<int>(error.code())},
                             {"name", std::string(name_of(error.code()))},
                             {"what", error.what()},
                             {"where", error.context()},
                             {"hint", hint_of(error)},
                             {"detail", error.detail()}}));
        return;
    }
    say(LogLevel::error, text_of(error, level_ == LogLevel::debug));
}
void Log::warning(std::string_view text) {
    say(LogLevel::warning, text);
}
void Log::info(std::string_view text) {
    say(LogLevel::info, text);
}
void Log::debug(std::string_view text) {
    say(LogLevel::debug, text);
}

void Log::trace(std::string_view text) {
    if (listener_ != nullptr) {
        say(LogLevel::info, "trace: " + std::string(text));
    } else if (is_speaker_) {
        write("trace: " + std::string(text) + "\n");
    }
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
