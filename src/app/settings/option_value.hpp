// The values of options: what texts say, and how they are put into a Job.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "numeric/encoding.hpp"
#include "publish/room.hpp"

#include "job.hpp"

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
/// Seconds since 1970 of a text in one of strptime's forms; nullopt: it is in another.
std::optional<double> local_time_in(const std::string& text, const char* form);
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

/// What becomes of the text that an option is given.
struct Setter {
    /// Error(usage) when the text is no value of the option.
    std::function<void(const Given&, Job&)> put;
    std::vector<std::string> words = {};  ///< the texts that there are; none: any may be a value
    /// The text that stands for what an output has, where that is a form (Touches::form); "": it
    /// has none of it.
    std::string (*spell)(const JobOutput&) = nullptr;
};

template <typename Part, typename T>
Part class_of(T Part::*);

/// The member, of the part of the options that has it.
template <auto Of>
auto& member(Job& job) {
    auto parts =
        std::tie(job.inputs.front(), job.inputs.front().mesh, job.outputs.front(), job.model,
                 job.model.averaging, job.model.selection, job.run, job.run.plan, job);
    return std::get<decltype(class_of(Of))&>(parts).*Of;
}
template <auto Of>
using Member = std::remove_cvref_t<decltype(member<Of>(std::declval<Job&>()))>;

// Setters of a member.

/// What `read` makes of the text: size_in, ...
template <auto Of, typename Read>
Setter value(Read read, std::vector<std::string> words = {},
             std::string (*spell)(const JobOutput&) = nullptr) {
    return {[=](const Given& given, Job& job) { member<Of>(job) = read(given); }, std::move(words),
            spell};
}

/// The setter of an option without a value.
template <auto Of>
Setter flag(Member<Of> meaning = true) {
    return value<Of>([=](const Given&) { return meaning; });
}

/// Strings and paths.
template <auto Of>
Setter text() {
    return value<Of>([](const Given& given) { return given.text; });
}

template <auto Of>
Setter number(Index least) {
    return value<Of>(
        [=](const Given& given) { return static_cast<Member<Of>>(number_in(given, least)); });
}

template <auto Of>
Setter word(const Words<Member<Of>>& words) {
    std::vector<std::string> names(words.size());
    std::ranges::transform(words, names.begin(), [](auto& one) { return std::string(one.first); });
    return value<Of>([=](const Given& given) { return word_in(given, words); }, names);
}

/// "auto (default), fsdp or dcp": the first word is the default.
template <typename T>
std::string choice_help(const Words<T>& words) {
    std::string text;
    for (const auto& [word, meaning] : words) {
        text += text.empty() ? "" : word == words.back().first ? " or " : ", ";
        text += std::string(word) + (word == words.front().first ? " (default)" : "");
    }
    return text;
}
Words<const outputs::OutputFormat*> output_formats();
/// The values of --backend.
Words<std::string> backends();

// All of the following: Error(usage) when the text is no such value.

/// "bf16", "bfloat16", "torch.bfloat16"; Error(unsupported) for types of 8 bits and fewer.
DType dtype_in(const Given& given);
/// "fp8-block", or a preset's name of compressed-tensors.
Encoding encoding_in(const Given& given);
/// "legacy:tp=8"; "" for "hf", a model.
std::string form_in(const Given& given);
/// nullopt for "none".
std::optional<fs::path> report_in(const Given& given);
/// "2,4": one or more, none of them 0.
std::vector<Index> extents_in(const Given& given);
/// "8", "all", "8,4MiB".
publish::Striping striping_in(const Given& given);
/// A regular expression.
std::string expression_in(const Given& given);
double lora_alpha_in(const Given& given);
/// More than 0.
double decay_in(const Given& given);
/// Bytes that are read or written at once.
Bytes memory_limit_in(const Given& given);

// Setters.
void ignored(const Given& given, Job& job);
void ignored_with_note(const Given& given, Job& job);
void set_older_config(const Given& given, Job& job);
void set_verl(const Given& given, Job& job);
void set_also(const Given& given, Job& job);

}  // namespace shardweld::app
