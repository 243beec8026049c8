// One command's arguments as values: numbers, sizes, one of a few words.
// Knows the ranges and the messages of those kinds; knows no option.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/core/text.hpp"

#include "arguments.hpp"

namespace shardweld::app {

/// Error(usage).
[[noreturn]] void refuse(const std::string& message);

/// Reads typed values out of the arguments of one command; nullopt where an option is not given.
/// Error(usage) names the option whose value is none. `arguments` must outlive it.
class OptionReader {
  public:
    explicit OptionReader(const Arguments& arguments) : arguments_(arguments) {}

    [[nodiscard]] bool has(const std::string& name) const { return arguments_.has(name); }
    [[nodiscard]] std::optional<std::string> text(const std::string& name) const;

    /// Bytes, more than none.
    [[nodiscard]] std::optional<Bytes> size(const std::string& name) const;
    [[nodiscard]] std::optional<Index> number(const std::string& name, Index least) const;

    /// A finite number that is not negative.
    [[nodiscard]] std::optional<double> real(const std::string& name) const;

    /// Seconds: "90", "90s", "5m", "1.5h".
    [[nodiscard]] std::optional<double> duration(const std::string& name) const;

    /// One of a few words, e.g. {{"auto", Strategy::automatic}, ...}.
    template <typename T>
    [[nodiscard]] std::optional<T> choice(
        const std::string& name, const std::vector<std::pair<std::string, T>>& words) const {
        const auto value = text(name);
        if (!value) {
            return std::nullopt;
        }
        std::string known;
        for (const auto& [word, meaning] : words) {
            if (word == *value) {
                return meaning;
            }
            known += (known.empty() ? "" : ", ") + word;
        }
        refuse("--" + name + " " + printable(*value) + " is none of: " + known);
    }

  private:
    const Arguments& arguments_;
};

}  // namespace shardweld::app
