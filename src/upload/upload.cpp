#include "upload.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>
#include <vector>

#include "core/redact.hpp"
#include "core/text.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

#include "client.hpp"

namespace shardweld::upload {

namespace {

constexpr double kHelpLimit_s = 120;  // Python starts slowly on a busy parallel file system
constexpr std::size_t kMostReason = 400;

[[noreturn]] void refuse(const std::string& what) {
    throw Error(
        ErrorCode::no_client, what,
        "install the official one (pip install huggingface_hub) or give its path with --hf_cli");
}

/// What is wrong with a client; "" when it can upload.
std::string fault_of(const fs::path& client, const std::vector<std::string>& secrets) {
    bool knows_repositories = false;
    std::string last;
    const auto read = [&](std::string_view line) {
        // "REPO_ID" or "repo_id", in the help of every version.
        knows_repositories = knows_repositories || line.find("REPO_ID") != std::string_view::npos ||
                             line.find("repo_id") != std::string_view::npos;
        last = printable(redacted(line, secrets), kMostReason);
    };
    const auto ending =
        process::run({client, {"upload", "--help"}, quiet_environment(), kHelpLimit_s, read});
    if (!ending) {
        return "it cannot be started (" + std::generic_category().message(errno) + ")";
    }
    if (ending->was_stopped) {
        throw Error(ErrorCode::interrupted, "stopped by a signal while trying " + client.string());
    }
    if (ending->took_too_long) {
        return "it does not answer to 'upload --help' within two minutes";
    }
    if (!ending->is_success()) {
        return "'upload --help' fails" + (last.empty() ? "" : " (" + last + ")");
    }
    return knows_repositories
               ? ""
               : "it is not the Hub's client ('upload --help' mentions no repository)";
}

/// A client given with --hf_cli: a path, or a name on PATH.
fs::path given_client(const fs::path& given, const std::string& path) {
    if (given.has_parent_path()) {
        if (!process::is_program(given)) {
            refuse("--hf_cli " + given.string() + " is not a program that can be run");
        }
        return fs::absolute(given);
    }
    const auto found = process::find_program(given.string(), path);
    if (!found) {
        refuse("--hf_cli " + given.string() + " is not on PATH");
    }
    return *found;
}

/// The client that was asked for, else the first on PATH that can upload. Error(no_client) says
/// which were tried and what is wrong with the first; secrets replaced.
fs::path find_client(const std::optional<fs::path>& given, const Environment& environment,
                     const std::vector<std::string>& secrets) {
    const std::string path = environment("PATH").value_or("");
    std::vector<fs::path> candidates;
    if (given) {
        candidates.push_back(given_client(*given, path));
    } else {
        for (const char* name : {"hf", "huggingface-cli"}) {
            if (const auto found = process::find_program(name, path)) {
                candidates.push_back(*found);
            }
        }
    }
    std::string fault;
    for (const fs::path& client : candidates) {
        const std::string found = fault_of(client, secrets);
        if (found.empty()) {
            return client;
        }
        if (fault.empty()) {
            fault = "the client " + client.string() + " cannot be used: " + found;
        }
    }
    refuse(fault.empty() ? "uploads need the Hub's client, but neither hf nor huggingface-cli is "
                           "on PATH"
                         : fault);
}

/// The process that creates the repository, if there is none, and uploads the directory.
process::Process upload_process(const UploadRequest& request, const fs::path& client) {
    // The client makes the repository itself; absolute, so that no name looks like an option.
    std::vector<std::string> arguments = {
        "upload", request.repository, fs::absolute(request.directory).string(),
        ".",      "--repo-type",      "model"};
    if (request.is_private) {
        arguments.emplace_back("--private");
    }
    if (!request.revision.empty()) {
        arguments.insert(arguments.end(), {"--revision", request.revision});
    }
    for (const std::string& name : request.kept_back) {
        arguments.insert(arguments.end(), {"--exclude", name});
    }
    return {client, std::move(arguments), quiet_environment(), std::nullopt, {}};
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
           (request.revision.empty() ? ""
                                     : " --revision " + process::shell_word(request.revision)) +
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

namespace {

constexpr const char* kCard = "README.md";

/// Runs the client once; what it said goes to `output`, too.
std::optional<process::Ending> run_client(const UploadRequest& request, const Access& access,
                                          const std::function<void(std::string_view)>& on_line,
                                          ClientOutput& output) {
    process::Process client = upload_process(request, access.client);
    client.on_line = output.listener(access.secrets, on_line);
    return process::run(client);
}

/// Whether the upload failed because nobody judges the card (huggingface_hub's create_commit asks
/// /api/validate-yaml about each README.md).
bool lacks_judge(const UploadRequest& request, const ClientOutput& output) {
    return std::ranges::count(request.kept_back, kCard) == 0 &&
           output.text().find("/api/validate-yaml") != std::string::npos &&
           output.text().find("404") != std::string::npos;
}

}  // namespace

void upload(const UploadRequest& request, const Access& access,
            const std::function<void(std::string_view)>& on_line) {
    try {
        check_sent(request.directory);
    } catch (const Error& error) {
        throw Error(error.code(), "not uploaded to " + request.repository + ": " + error.what(),
                    error.hint() + "; then: " + retry_command(request));
    }
    ClientOutput output;
    const std::optional<process::Ending> ending = run_client(request, access, on_line, output);
    if (ending && ending->is_success()) {
        return;
    }
    if (ending && !ending->was_stopped && lacks_judge(request, output)) {
        on_line(kNoCard);
        UploadRequest without = request;
        // First: old clients heed the last of several.
        without.kept_back.insert(without.kept_back.begin(), kCard);
        upload(without, access, on_line);
        return;
    }
    const UploadFailure failure = failure_of_ending(ending, output);
    throw Error(failure.code,
                "not uploaded to " + request.repository + ": " + failure.what + output.words(),
                advice_for(failure.code, request) + "; then, from " + request.directory.string() +
                    ": " + retry_command(request));
}

}  // namespace shardweld::upload
