// How a row of the option table puts a value into Options.
// Knows kinds of values; knows no option.
#pragma once

#include <functional>
#include <type_traits>

#include "option_value.hpp"
#include "options.hpp"

namespace shardweld::app {

/// Error(usage) when the text is no value of the option.
using Setter = std::function<void(const Given&, Options&)>;

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
    return [field, words = std::move(words)](const Given& given, Options& options) {
        options.*field = word_in(given, words);
    };
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
