// Uploads a model directory to the HuggingFace Hub by running the Hub's official client.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::upload {

/// Reads an environment variable; nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct UploadRequest {
    fs::path directory;
    std::string repository;  ///< ORG/NAME
    bool is_private = false;
    std::optional<fs::path> client;           ///< not given: `hf`, else `huggingface-cli`, on PATH
    std::vector<std::string> kept_back = {};  ///< names of files, which stay here
    std::string revision = {};                ///< a branch, made if it is new; "": the default one
};

/// The line that says so where a mirror takes no model card.
inline constexpr const char* kNoCard =
    "the Hub at HF_ENDPOINT takes no model card: README.md stays here";

/// What an upload needs besides the model.
struct Access {
    fs::path client;
    std::vector<std::string> secrets;  ///< never shown: *** stands for them
};

struct Tokens {
    bool is_present = false;
    std::vector<std::string> values;  ///< to be hidden
    fs::path file;                    ///< where a token would lie that `hf auth login` wrote
};

/// Where the client takes its token from (huggingface_hub 2.4: constants.py, utils/_auth.py): what
/// HF_TOKEN, HUGGING_FACE_HUB_TOKEN and the token file (HF_TOKEN_PATH, else in HF_HOME, else
/// in the user's cache) hold. A file that cannot be read holds nothing.
Tokens find_tokens(const Environment& environment);

/// Why the Hub has no repository ORG/NAME of this name (huggingface_hub 2.4, utils/_validators.py:
/// letters, digits, '-', '_', '.', at most 96); "" where it may have.
std::string fault_of_repository(const std::string& name);
/// Error(usage) with that fault.
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

/// A file of a model, by its name below the model's directory.
struct ModelFile {
    std::string name;
    Bytes size = 0;
};

/// What is sent of a directory: all but what the client leaves out as check_sent says, and the
/// files directly in it that are `kept_back`. In no order. Error(io).
std::vector<ModelFile> files_sent(const fs::path& directory,
                                  const std::vector<std::string>& kept_back);

/// Whether a file of this name holds weights.
bool is_weights(const std::string& name);

/// Checks the repository's name, finds the client, sees that it runs and can upload, and finds a
/// token: what can be known without a network. Takes seconds. Error(usage), Error(no_client),
/// Error(no_token).
Access check_access(const UploadRequest& request, const Environment& environment);

/// Creates the repository if there is none and uploads the directory; returns when all is there.
/// Where the Hub, a mirror, has no address that judges model cards, README.md stays here, which
/// `on_line` is told.
/// Errors as check_sent. Everything the client says goes to `on_line`, secrets replaced. SIGINT,
/// SIGTERM and SIGHUP end the client, then the call. Error(no_client), Error(no_token),
/// Error(no_rights), Error(no_repository), Error(no_network), Error(interrupted): what happened,
/// that the model stays where it is, and retry_command().
void upload(const UploadRequest& request, const Access& access,
            const std::function<void(std::string_view)>& on_line);

/// The shell command that uploads what `request` asks for.
std::string retry_command(const UploadRequest& request);

}  // namespace shardweld::upload
