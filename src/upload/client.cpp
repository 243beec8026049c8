#include "client.hpp"

#include <cerrno>
#include <system_error>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "redact.hpp"

namespace shardweld::upload {

namespace {

constexpr double kHelpLimit_s = 120;  // Python starts slowly on a busy parallel file system
constexpr std::size_t kMostReason = 400;

/// No question about new versions, no colours, no held-back output.
std::vector<std::string> quiet_environment() {
    return {"HF_HUB_DISABLE_UPDATE_CHECK=1", "NO_COLOR=1", "PYTHONUNBUFFERED=1"};
}

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

}  // namespace

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

process::Process upload_process(const UploadRequest& request, const fs::path& client) {
    // The client makes the repository itself; absolute, so that no name looks like an option.
    std::vector<std::string> arguments = {
        "upload", request.repository, fs::absolute(request.directory).string(),
        ".",      "--repo-type",      "model"};
    if (request.is_private) {
        arguments.emplace_back("--private");
    }
    return {client, std::move(arguments), quiet_environment(), std::nullopt, {}};
}

}  // namespace shardweld::upload
