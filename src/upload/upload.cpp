#include "upload.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>

#include "core/text.hpp"
#include "process/shell.hpp"
#include "shardweld/error.hpp"

#include "client.hpp"
#include "failure.hpp"
#include "redact.hpp"
#include "token.hpp"

namespace shardweld::upload {

namespace {

constexpr std::size_t kMostLine = 4096;
constexpr std::size_t kMostOutput = 65536;

/// "Error: ..." or "httpx.ConnectError: ..."
bool is_error(std::string_view line) {
    const std::size_t end = line.substr(0, line.find(':')).size();
    return end < line.size() && line.substr(0, end).ends_with("Error") &&
           line.substr(0, end).find(' ') == std::string_view::npos;
}

/// The end of what the client said, and the line that tells most: its last error, else its last.
class Output {
  public:
    void add(const std::string& line) {
        text_ += line + "\n";
        if (text_.size() > 2 * kMostOutput) {
            text_.erase(0, text_.size() - kMostOutput);
        }
        (is_error(line) ? error_ : last_) = line;
    }
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] const std::string& error_or_last() const {
        return error_.empty() ? last_ : error_;
    }

  private:
    std::string text_;
    std::string error_;
    std::string last_;
};

std::string signal_text(int signal) {
    return "signal " + std::to_string(signal) + (signal == SIGKILL ? ", killed" : "");
}

UploadFailure failure_of_ending(const std::optional<process::Ending>& ending,
                                const Output& output) {
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

std::string advice_for(ErrorCode code, const UploadRequest& request) {
    const std::string owner = request.repository.substr(0, request.repository.find('/'));
    switch (code) {
        case ErrorCode::no_client:
            return "install the official one (pip install huggingface_hub) or give its path with "
                   "--hf_cli";
        case ErrorCode::no_token:
            return "run hf auth login or set HF_TOKEN";
        case ErrorCode::no_rights:
            return "use a token that may write to " + owner;
        case ErrorCode::no_repository:
            return "check the owner and the name";
        case ErrorCode::no_network:
            return "compute nodes are often offline: upload from one with a network, or later";
        default:
            return "what the Hub already has is not sent again";
    }
}

}  // namespace

std::string retry_command(const UploadRequest& request) {
    return "shardweld upload " + process::shell_word(request.directory.string()) +
           " --hf_upload_path " + process::shell_word(request.repository) +
           (request.is_private ? " --private" : "") +
           (request.client ? " --hf_cli " + process::shell_word(request.client->string()) : "");
}

Access check_access(const UploadRequest& request, const Environment& environment) {
    check_repository(request.repository);
    Tokens tokens = find_tokens(environment);
    Access access;
    access.client = find_client(request.client, environment, tokens.values);
    if (!tokens.is_present) {
        throw Error(
            ErrorCode::no_token, "uploading needs a Hub token, and there is none",
            "run hf auth login, or set HF_TOKEN (looked at HF_TOKEN, HUGGING_FACE_HUB_TOKEN and " +
                tokens.file.string() + ")");
    }
    access.secrets = std::move(tokens.values);
    return access;
}

void upload(const UploadRequest& request, const Access& access,
            const std::function<void(std::string_view)>& on_line) {
    try {
        check_sent(request.directory);
    } catch (const Error& error) {
        throw Error(error.code(), "not uploaded to " + request.repository + ": " + error.what(),
                    error.hint() + "; then: " + retry_command(request));
    }
    Output output;
    process::Process client = upload_process(request, access.client);
    client.on_line = [&](std::string_view line) {
        const std::string shown = printable(redacted(line, access.secrets), kMostLine);
        output.add(shown);
        on_line(shown);
    };
    const std::optional<process::Ending> ending = process::run(client);
    if (ending && ending->is_success()) {
        return;
    }
    const UploadFailure failure = failure_of_ending(ending, output);
    const std::string& words = output.error_or_last();
    throw Error(failure.code,
                "not uploaded to " + request.repository + ": " + failure.what +
                    (words.empty() ? "" : "; the client says: " + printable(words, 300)),
                advice_for(failure.code, request) + "; then, from " + request.directory.string() +
                    ": " + retry_command(request));
}

}  // namespace shardweld::upload
