// How a row of the option table puts a value into Options.
// Knows kinds of values; knows no option.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "option_value.hpp"
#include "options.hpp"

namespace shardweld::app {

/// What becomes of the text that an option is given, and the texts that there are.
class Setter {
  public:
    /// Error(usage) when the text is no value of the option.
    template <std::invocable<const Given&, Options&> Put>
    Setter(Put put) : put_(std::move(put)) {}
    Setter(Setter setter, std::vector<std::string> words)
        : put_(std::move(setter.put_)), words_(std::move(words)) {}

    void operator()(const Given& given, Options& options) const { put_(given, options); }
    /// None where any text may be a value.
    [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

  private:
    std::function<void(const Given&, Options&)> put_;
    std::vector<std::string> words_;
};

inline Setter flag(bool Options::*field, bool value = true) {
    return [=](const Given&, Options& options) { options.*field = value; };
}

/// Strings and paths.
template <typename T>
Setter text(T Options::*field) {
    return [=](const Given& given, Options& options) { options.*field = given.text; };
}

template <typename T>
Setter number(T Options::*field, Index least) {
    return [=](const Given& given, Options& options) {
        options.*field = static_cast<T>(number_in(given, least));
    };
}

template <typename T>
Setter word(T Options::*field, std::type_identity_t<Words<T>> words) {
    std::vector<std::string> names;
    for (const auto& [name, meaning] : words) {
        names.emplace_back(name);
    }
    const auto put = [field, words = std::move(words)](const Given& given, Options& options) {
        options.*field = word_in(given, words);
    };
    return {put, std::move(names)};
}

/// What `read` makes of the text: size_in, ...
template <typename T, typename Read>
Setter value(T Options::*field, Read read) {
    return [=](const Given& given, Options& options) { options.*field = read(given); };
}

/// The same, for a part of a value.
template <typename Whole, typename T, typename Read>
Setter value(Whole Options::*whole, T Whole::*part, Read read) {
    return [=](const Given& given, Options& options) { options.*whole.*part = read(given); };
}

}  // namespace shardweld::app
