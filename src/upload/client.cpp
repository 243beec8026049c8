#include "client.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>

#include "core/redact.hpp"
#include "core/text.hpp"

namespace shardweld::upload {

namespace {

constexpr std::size_t kMostLine = 4096;
constexpr std::size_t kMostOutput = 65536;
constexpr std::size_t kMostWords = 300;

/// "Error: ..." or "httpx.ConnectError: ..."
bool is_error(std::string_view line) {
    const std::size_t end = line.substr(0, line.find(':')).size();
    return end < line.size() && line.substr(0, end).ends_with("Error") &&
           line.substr(0, end).find(' ') == std::string_view::npos;
}

std::string signal_text(int signal) {
    return "signal " + std::to_string(signal) + (signal == SIGKILL ? ", killed" : "");
}

}  // namespace

std::vector<std::string> quiet_environment() {
    return {"HF_HUB_DISABLE_UPDATE_CHECK=1", "NO_COLOR=1", "PYTHONUNBUFFERED=1"};
}

std::function<void(std::string_view)> ClientOutput::listener(
    const std::vector<std::string>& secrets, const std::function<void(std::string_view)>& on_line) {
    return [this, &secrets, on_line](std::string_view line) {
        const std::string shown = printable(redacted(line, secrets), kMostLine);
        add(shown);
        if (on_line) {
            on_line(shown);
        }
    };
}

std::string ClientOutput::words() const {
    const std::string& words = error_.empty() ? last_ : error_;
    return words.empty() ? "" : "; the client says: " + printable(words, kMostWords);
}

void ClientOutput::add(const std::string& line) {
    text_ += line + "\n";
    if (text_.size() > 2 * kMostOutput) {
        text_.erase(0, text_.size() - kMostOutput);
    }
    (is_error(line) ? error_ : last_) = line;
}

UploadFailure failure_of_ending(const std::optional<process::Ending>& ending,
                                const ClientOutput& output) {
    if (!ending) {
        return {ErrorCode::no_client,
                "the client cannot be started (" + std::generic_category().message(errno) + ")"};
    }
    if (ending->was_stopped) {
        return {ErrorCode::interrupted, "the upload was stopped by a signal"};
    }
    if (ending->signal) {
        return {ErrorCode::interrupted,
                "the client was ended by a signal (" + signal_text(*ending->signal) + ")"};
    }
    return failure_of(output.text());
}

}  // namespace shardweld::upload
