#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "core/text.hpp"

namespace shardweld::upload {

namespace {

struct TellingWords {
    std::string_view words;  ///< in small letters
    ErrorCode code;
    std::string_view meaning;
};

constexpr std::string_view kNoToken = "the client found no token";
constexpr std::string_view kNoRights = "the Hub refused the token or its rights";
constexpr std::string_view kNotFound = "the Hub knows no such repository or owner";
constexpr std::string_view kUnreachable = "the Hub cannot be reached";
constexpr std::string_view kBroken = "the connection broke while uploading";
constexpr std::string_view kUnusable = "the client does not work";

constexpr std::array<TellingWords, 37> kTelling = {{
    {"not logged in", ErrorCode::no_token, kNoToken},
    {"token is required", ErrorCode::no_token, kNoToken},
    {"localtokennotfound", ErrorCode::no_token, kNoToken},
    {"invalid user token", ErrorCode::no_rights, kNoRights},
    {"invalid username or password", ErrorCode::no_rights, kNoRights},
    {"invalid credentials", ErrorCode::no_rights, kNoRights},
    {"repository not found", ErrorCode::no_repository, kNotFound},
    {"repositorynotfound", ErrorCode::no_repository, kNotFound},
    {"' not found.", ErrorCode::no_repository, kNotFound},
    {"connection refused", ErrorCode::no_network, kUnreachable},
    {"connecterror", ErrorCode::no_network, kUnreachable},
    {"connectionerror", ErrorCode::no_network, kUnreachable},
    {"name or service not known", ErrorCode::no_network, kUnreachable},
    {"name resolution", ErrorCode::no_network, kUnreachable},
    {"no address associated", ErrorCode::no_network, kUnreachable},
    {"dns error", ErrorCode::no_network, kUnreachable},
    {"network is unreachable", ErrorCode::no_network, kUnreachable},
    {"no route to host", ErrorCode::no_network, kUnreachable},
    {"timed out", ErrorCode::no_network, kUnreachable},
    {"timeout", ErrorCode::no_network, kUnreachable},
    {"error sending request", ErrorCode::no_network, kUnreachable},
    {"proxyerror", ErrorCode::no_network, kUnreachable},
    {"certificate verify failed", ErrorCode::no_network, kUnreachable},
    {"offline mode", ErrorCode::no_network, "the client is told to stay offline (HF_HUB_OFFLINE)"},
    {"connection reset", ErrorCode::interrupted, kBroken},
    {"connection aborted", ErrorCode::interrupted, kBroken},
    {"connection closed", ErrorCode::interrupted, kBroken},
    {"broken pipe", ErrorCode::interrupted, kBroken},
    {"server disconnected", ErrorCode::interrupted, kBroken},
    {"remoteprotocolerror", ErrorCode::interrupted, kBroken},
    {"writeerror", ErrorCode::interrupted, kBroken},
    {"readerror", ErrorCode::interrupted, kBroken},
    {"incomplete", ErrorCode::interrupted, kBroken},
    {"no such option", ErrorCode::no_client, kUnusable},
    {"unrecognized arguments", ErrorCode::no_client, kUnusable},
    {"no module named", ErrorCode::no_client, kUnusable},
    {"importerror", ErrorCode::no_client, kUnusable},
}};

std::string in_small_letters(std::string_view text) {
    std::string small(text);
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return small;
}

/// The HTTP status at `at`: three digits, the first a 4 or 5, that are no part of a longer word.
std::optional<int> status_at(std::string_view text, std::size_t at) {
    if (at + 3 > text.size() || (text[at] != '4' && text[at] != '5') || !is_digit(text[at + 1]) ||
        !is_digit(text[at + 2]) ||
        (at + 3 < text.size() && std::isalnum(static_cast<unsigned char>(text[at + 3])) != 0)) {
        return std::nullopt;
    }
    return (text[at] - '0') * 100 + (text[at + 1] - '0') * 10 + (text[at + 2] - '0');
}

struct Status {
    int value = 0;
    std::size_t at = 0;
};

/// The last status that stands beside words which make it one: "client error '404 ...", "server
/// error (503 ...", "401 client error", "403 forbidden".
std::optional<Status> last_status(std::string_view text) {
    constexpr std::array<std::string_view, 7> kBeside = {
        "client error", "server error", "http error",  "http status",
        "status code",  "forbidden",    "unauthorized"};
    std::optional<Status> last;
    const auto keep = [&](std::size_t at) {
        const auto status = status_at(text, at);
        if (status && (!last || at >= last->at)) {
            last = Status{*status, at};
        }
    };
    for (const std::string_view words : kBeside) {
        for (std::size_t at = text.find(words); at != std::string_view::npos;
             at = text.find(words, at + 1)) {
            if (at >= 4) {
                keep(at - 4);
            }
            keep(std::min(text.find_first_not_of(" '\":(", at + words.size()), text.size()));
        }
    }
    return last;
}

UploadFailure failure_of_status(int status) {
    const std::string number = " (" + std::to_string(status) + ")";
    if (status == 401 || status == 403) {
        return UploadFailure{ErrorCode::no_rights, std::string(kNoRights) + number};
    }
    if (status == 404) {
        return UploadFailure{ErrorCode::no_repository, std::string(kNotFound) + number};
    }
    if (status == 408 || status == 429 || status >= 500) {
        return UploadFailure{ErrorCode::no_network,
                             "the Hub does not answer as it should" + number};
    }
    return UploadFailure{ErrorCode::interrupted, "the Hub refused the upload" + number};
}

}  // namespace

UploadFailure failure_of(std::string_view output) {
    const std::string text = in_small_letters(output);
    UploadFailure failure{ErrorCode::interrupted, "the client gave up"};
    std::size_t last = 0;
    for (const TellingWords& telling : kTelling) {
        const std::size_t at = text.rfind(telling.words);
        if (at != std::string::npos && at >= last) {
            last = at;
            failure = {telling.code, std::string(telling.meaning)};
        }
    }
    // A status is plainer than the words that come with it ("401 ... invalid username or
    // password").
    constexpr std::size_t kNear = 600;
    const std::optional<Status> status = last_status(text);
    if (status && last < status->at + kNear) {
        return failure_of_status(status->value);
    }
    return failure;
}

}  // namespace shardweld::upload
