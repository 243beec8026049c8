#include "token.hpp"

#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::upload {

namespace {

constexpr Bytes kMostTokenFile = 65536;
/// Shorter texts are no tokens, and hiding them would make messages unreadable.
constexpr std::size_t kLeastSecret = 4;

std::string value_of(const Environment& environment, const char* name) {
    return environment(name).value_or("");
}

fs::path with_home(const std::string& path, const fs::path& home) {
    return path.starts_with("~/") ? home / path.substr(2) : fs::path(path);
}

fs::path token_file(const Environment& environment) {
    const fs::path home = value_of(environment, "HOME");
    if (const auto path = value_of(environment, "HF_TOKEN_PATH"); !path.empty()) {
        return with_home(path, home);
    }
    if (const auto path = value_of(environment, "HF_HOME"); !path.empty()) {
        return with_home(path, home) / "token";
    }
    const auto cache = value_of(environment, "XDG_CACHE_HOME");
    return (cache.empty() ? home / ".cache" : with_home(cache, home)) / "huggingface" / "token";
}

std::string text_in(const fs::path& file) {
    try {
        return io::read_text(file, kMostTokenFile);
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

Tokens find_tokens(const Environment& environment) {
    Tokens tokens;
    tokens.file = token_file(environment);
    for (const std::string& text :
         {value_of(environment, "HF_TOKEN"), value_of(environment, "HUGGING_FACE_HUB_TOKEN"),
          text_in(tokens.file)}) {
        const std::string value(trim(text));
        tokens.is_present = tokens.is_present || !value.empty();
        if (value.size() >= kLeastSecret) {
            tokens.values.push_back(value);
        }
    }
    // An identity of the CI system, which the client exchanges for a token.
    tokens.is_present = tokens.is_present || !value_of(environment, "HF_OIDC_RESOURCE").empty();
    return tokens;
}

}  // namespace shardweld::upload
