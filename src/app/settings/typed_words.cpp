#include "typed_words.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"

#include "nearest.hpp"
#include "text_rows.hpp"

namespace shardweld::app {

/// typed_words.txt beside the commands in Python, which read it, too. The build makes it.
std::string_view typed_words_text();

namespace {

/// The words of a part, whose first column is what they are typed at, unless they are commands.
std::vector<TypedWord> words_of(std::string_view part) {
    std::vector<TypedWord> words;
    for (auto [at, typed, means, text] : text_rows(typed_words_text(), part)) {
        if (part == "commands") {
            text = std::exchange(means, std::exchange(typed, std::exchange(at, "")));
        }
        const bool is_taken = means.starts_with("=");
        words.push_back({at, typed, means.substr(is_taken ? 1 : 0), text, is_taken});
    }
    return words;
}

/// Small letters, '-' for '_'.
std::string plain(std::string_view typed) {
    return replaced(in_small_letters(typed), "_", "-");
}

/// `words` stand with blanks between them.
bool is_among(std::string_view word, std::string_view words) {
    return contains(split(words, ' '), word);
}

/// "merge plan", "every -clean" (all but one).
bool is_named(std::string_view command, std::string_view at) {
    return is_among(command, at) ||
           (!command.empty() && is_among("every", at) && !is_among("-" + std::string(command), at));
}

std::string guess_text(std::string_view means, std::string_view text) {
    const std::string question = means.empty() ? "" : "did you mean " + std::string(means) + "?";
    return question + (question.empty() || text.empty() ? "" : " ") + std::string(text);
}

}  // namespace

const std::vector<TypedWord>& typed_options() {
    static const std::vector<TypedWord> words = words_of("options");
    return words;
}

const std::vector<TypedWord>& typed_values() {
    static const std::vector<TypedWord> words = words_of("values");
    return words;
}

const TypedWord* find_typed_option(std::string_view typed, const CommandRow& command) {
    typed.remove_prefix(std::min(typed.find_first_not_of('-'), typed.size()));
    const std::string name = replaced(std::string(typed), "-", "_");
    for (const std::string_view at : {command.name, command.passes_on}) {
        for (const TypedWord& row : typed_options()) {
            if (is_among(name, row.typed) && is_named(at, row.at)) {
                return &row;
            }
        }
    }
    return nullptr;
}

std::string option_guess(std::string_view typed, const CommandRow& command) {
    const TypedWord* const row = find_typed_option(typed, command);
    return row == nullptr ? "" : guess_text(row->means, row->text);
}

std::string command_guess(std::string_view typed) {
    const std::string name = replaced(plain(typed), "-", "_");
    static const std::vector<TypedWord> rows = words_of("commands");
    auto* const found =
        find_where(rows, [&](const TypedWord& row) { return is_among(name, row.typed); });
    return found == nullptr
               ? ""
               : guess_text(found->means.empty() ? "" : "shardweld " + std::string(found->means),
                            found->text);
}

std::string value_guess(std::string_view option, std::string_view typed,
                        const std::vector<std::string>& known) {
    const std::string name = plain(option);
    // "gguf:q4_k_m" is meant as "q4_k_m" is.
    const std::string whole = plain(typed);
    const std::string value = whole.substr(whole.find(':') + 1);
    for (const TypedWord& row : typed_values()) {
        if (row.at == name && is_among(value, row.typed)) {
            return guess_text(row.means, row.text);
        }
    }
    for (const std::string& one : known) {
        // "vLLM", and "q8_0" for "gguf:q8_0".
        if (plain(one) == whole || plain(one).ends_with(":" + value)) {
            return guess_text(one, "");
        }
    }
    return suggestion(typed, known);
}

}  // namespace shardweld::app
