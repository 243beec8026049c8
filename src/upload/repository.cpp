#include <algorithm>
#include <cctype>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "upload.hpp"

namespace shardweld::upload {

namespace {

constexpr std::size_t kMostLetters = 96;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
    throw Error(ErrorCode::usage, "--hf_upload_path " + printable(name) + " " + why,
                "give ORG/NAME, for example me/my-model");
}

bool is_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_edge(char c) {
    return c == '-' || c == '.';
}

}  // namespace

void check_repository(const std::string& name) {
    const auto parts = split(name, '/');
    if (parts.size() != 2) {
        refuse(name, "is not a repository's name of owner and model");
    }
    for (const std::string_view part : parts) {
        if (part.empty() || part.size() > kMostLetters ||
            !std::all_of(part.begin(), part.end(), is_letter)) {
            refuse(name, "has a part that is not 1 to 96 of letters, digits, '-', '_' and '.'");
        }
        if (is_edge(part.front()) || is_edge(part.back())) {
            refuse(name, "has a part that begins or ends with '-' or '.'");
        }
    }
    if (name.find("--") != std::string::npos || name.find("..") != std::string::npos ||
        name.ends_with(".git")) {
        refuse(name, "has '--', '..' or ends in '.git', which the Hub does not allow");
    }
}

}  // namespace shardweld::upload
