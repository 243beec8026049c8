// Uploads a model directory to the HuggingFace Hub by running the Hub's official client.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/path.hpp"

#include "request.hpp"

namespace shardweld::upload {

/// Error(usage) unless the Hub can take `name` as ORG/NAME (huggingface_hub 2.4,
/// utils/_validators.py: letters, digits, '-', '_', '.', at most 96).
void check_repository(const std::string& name);

/// Error(not_found) unless `directory` holds a finished model: config.json and weights, or an
/// adapter; every file that an index names; no trace of a run that is still writing. Errors as
/// check_sent.
void check_model(const fs::path& directory);

/// Error(corrupt) when the directory holds what nobody means to publish: a link that leads out of
/// it (but for a snapshot of the Hub's cache), to a directory or to nothing, a file or directory
/// whose name begins with a dot (but for .gitattributes, .gitignore, and .git and
/// .cache/huggingface, which the client leaves out), a special file. Error(io).
void check_sent(const fs::path& directory);

/// Checks the repository's name, finds the client, sees that it runs and can upload, and finds a
/// token: what can be known without a network. Takes seconds. Error(usage), Error(no_client),
/// Error(no_token).
Access check_access(const UploadRequest& request, const Environment& environment);

/// Creates the repository if there is none and uploads the directory; returns when all is there.
/// Errors as check_sent. Everything the client says goes to `on_line`, secrets replaced. SIGINT,
/// SIGTERM and SIGHUP end the client, then the call. Error(no_client), Error(no_token),
/// Error(no_rights), Error(no_repository), Error(no_network), Error(interrupted): what happened,
/// that the model stays where it is, and retry_command().
void upload(const UploadRequest& request, const Access& access,
            const std::function<void(std::string_view)>& on_line);

/// The shell command that uploads what `request` asks for.
std::string retry_command(const UploadRequest& request);

}  // namespace shardweld::upload
