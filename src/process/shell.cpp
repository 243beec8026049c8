#include "shell.hpp"

#include <string_view>

#include "core/text.hpp"

namespace shardweld::process {

std::string shell_word(const std::string& text) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:=@%,";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
        return text;
    }
    std::string word = "'";
    for (const char c : text) {
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return word + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
    return joined(words, " ", shell_word);
}

}  // namespace shardweld::process
