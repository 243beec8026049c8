// The value that an option is given, read as what it stands for: a size, a number, one of a few
// words. Knows the ranges and the messages of those kinds; knows no option.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardweld/core/index.hpp"

namespace shardweld::app {

/// An option as the command line has it.
struct Given {
    std::string_view name;  ///< with '_'
    std::string text;       ///< never empty
};

/// Error(usage).
[[noreturn]] void refuse(const std::string& message, const std::string& hint);
/// Error(usage): "--NAME TEXT ", and what is wrong with it.
[[noreturn]] void refuse(const Given& given, const std::string& why,
                         const std::string& hint);  // All of these: Error(usage) names the option
                                                    // when its text is no such value.

/// Bytes, more than none.
Bytes size_in(const Given& given);
Index number_in(const Given& given, Index least);
/// A finite number that is not negative.
double real_in(const Given& given);
/// Seconds: "90", "90s", "5m", "1.5h".
double duration_in(const Given& given);
/// "ddp,fsdp".
std::vector<std::string> names_in(const Given& given);

/// What a word means, and the words that there are.
template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

template <typename T>
T word_in(const Given& given, const Words<T>& words) {
    std::string known;
    for (const auto& [word, meaning] : words) {
        if (word == given.text) {
            return meaning;
        }
        known += (known.empty() ? "" : ", ") + std::string(word);
    }
    refuse(given, "is none of its values", "give one of " + known);
}

}  // namespace shardweld::app
