// The values of options: what texts say, and how they are put into Options.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/encoding.hpp"
#include "core/index.hpp"
#include "core/text.hpp"
#include "publish/room.hpp"

#include "options.hpp"

namespace shardweld::app {

/// Between the values of an option that is given several times.
inline constexpr char kNextValue = '\0';

/// An option as the command line has it.
struct Given {
    std::string_view name;  ///< with '_'
    std::string text;       ///< never empty
};

/// Error(usage).
[[noreturn]] void refuse(const std::string& message, const std::string& hint);
/// Error(usage): "--NAME TEXT ", and what is wrong with it.
[[noreturn]] void refuse(const Given& given, const std::string& why, const std::string& hint);

/// Error(usage): what the option may be, and which of it was meant.
[[noreturn]] void refuse_value(const Given& given, const std::vector<std::string>& words);

// All of these: Error(usage) names the option when its text is no such value.

/// Bytes, more than none.
Bytes size_in(const Given& given);
Index number_in(const Given& given, Index least);
/// A finite number that is not negative.
double real_in(const Given& given);
/// Finite numbers: "0.2,0.8".
std::vector<double> reals_in(const Given& given);
/// Seconds: "90", "90s", "5m", "1.5h".
double duration_in(const Given& given);
/// Seconds since 1970: "1795702382", "2026-11-22T03:10" and "2026-11-22T03:10:30" in local time,
/// "+50m" from now.
double moment_in(const Given& given);
/// A branch of a repository, which is no option of git's or the client's: "step-100", "runs/a".
std::string branch_in(const Given& given);
/// "ddp,fsdp".
std::vector<std::string> names_in(const Given& given);

/// What --dtype calls a type; "" if it writes none of that type.
std::string_view dtype_word(DType dtype);

/// What a word means, and the words that there are.
template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

template <typename T>
T word_in(const Given& given, const Words<T>& words) {
    for (const auto& [word, meaning] : words) {
        if (word == given.text) {
            return meaning;
        }
    }
    std::vector<std::string> names;
    for (const auto& [word, meaning] : words) {
        names.emplace_back(word);
    }
    refuse_value(given, names);
}

/// What becomes of the text that an option is given, and the texts that there are.
class Setter {
  public:
    /// Error(usage) when the text is no value of the option.
    template <std::invocable<const Given&, Options&> Put>
    // The table of options lists functions. NOLINTNEXTLINE(google-explicit-constructor)
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

/// A setter of an option without a value.
template <typename T>
Setter flag(T Options::*field, std::type_identity_t<T> value = true) {
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

/// The same for a part of a member.
template <typename Whole>
Setter flag(Whole Options::*whole, bool Whole::*part) {
    return [=](const Given&, Options& options) { options.*whole.*part = true; };
}

/// A setter of a part of a member.
template <typename Whole, typename T, typename Read>
Setter value(Whole Options::*whole, T Whole::*part, Read read) {
    return [=](const Given& given, Options& options) { options.*whole.*part = read(given); };
}

template <typename Whole, typename T>
Setter word(Whole Options::*whole, T Whole::*part, std::type_identity_t<Words<T>> words) {
    std::vector<std::string> names;
    for (const auto& [name, meaning] : words) {
        names.emplace_back(name);
    }
    const auto put = [whole, part, words = std::move(words)](const Given& given, Options& options) {
        options.*whole.*part = word_in(given, words);
    };
    return {put, std::move(names)};
}

/// "auto (default), fsdp or dcp".
std::string choice_help(const std::string& first, const std::vector<std::string>& others);
std::string output_format_help();
const std::string& quantise_help();
Words<const outputs::Format*> output_formats();

// All of the following: Error(usage) when the text is no such value.

/// The values of --backend.
std::vector<std::string> backend_words();
/// Error(unsupported) for those that verl's mergers know and this version does not.
std::string backend_in(const Given& given);
/// "bf16", "bfloat16", "torch.bfloat16"; Error(unsupported) for types of 8 bits and fewer.
DType dtype_in(const Given& given);
/// "fp8-block", or a preset's name of compressed-tensors.
Encoding encoding_in(const Given& given);
/// "legacy:tp=8"; "" for "hf", a model.
std::string form_in(const std::string& text);
/// "2,4": one or more, none of them 0.
std::vector<Index> extents_in(const Given& given);
/// "8", "all", "8,4MiB".
publish::Striping striping_in(const Given& given);
/// A regular expression.
std::string expression_in(const Given& given);
double lora_alpha_in(const Given& given);
/// More than 0.
double decay_in(const Given& given);
fs::path path_in(const Given& given);
/// Bytes that are read or written at once.
Bytes memory_limit_in(const Given& given);
int n_ranks_in(const Given& given);

// Setters.
void ignored(const Given& given, Options& options);
void ignored_with_note(const Given& given, Options& options);
void set_older_config(const Given& given, Options& options);
void set_verl(const Given& given, Options& options);
void set_report(const Given& given, Options& options);
void set_also(const Given& given, Options& options);
void set_target(const Given& given, Options& options);
void set_form(const Given& given, Options& options);
void set_template(const Given& given, Options& options);
void set_quiet(const Given& given, Options& options);

}  // namespace shardweld::app
