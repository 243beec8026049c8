#include "typed_words.hpp"

#include <algorithm>

#include "core/text.hpp"

#include "nearest.hpp"

namespace shardweld::app {

/// typed_words.txt beside the commands in Python, which read it, too. The build makes it.
std::string_view typed_words_text();

namespace {

struct TypedCommand {
    std::string_view typed;
    std::string_view means;
    std::string_view text = {};
};

/// The commands that are named; those of programs of their own are none here.
unsigned commands_in(std::string_view names) {
    unsigned commands = 0;
    for (std::string_view name : split(names, ' ')) {
        const bool is_without = name.starts_with("-");
        name.remove_prefix(is_without ? 1 : 0);
        unsigned named = name == "every" ? kEvery : 0;
        for (const CommandRow& row : command_rows()) {
            named |= row.name == name ? bit_of(row.command) : 0;
        }
        commands = is_without ? commands & ~named : commands | named;
    }
    return commands;
}

struct TypedWords {
    std::vector<TypedCommand> commands;
    std::vector<TypedOption> options;
    std::vector<TypedValue> values;

    TypedWords() {
        std::string_view part;
        for (const std::string_view line : split(typed_words_text(), '\n')) {
            if (line.starts_with("[")) {
                part = line;
            } else if (!line.empty() && !line.starts_with("#")) {
                add(part, line);
            }
        }
    }

  private:
    void add(std::string_view part, std::string_view line) {
        constexpr std::size_t kColumns = 4;
        std::vector<std::string_view> cells;
        for (const std::string_view cell : split(line, '|')) {
            cells.push_back(trim(cell));
        }
        cells.resize(kColumns);
        if (part == "[commands]") {
            commands.push_back({cells[0], cells[1], cells[2]});
        } else if (part == "[values]") {
            values.push_back({cells[0], cells[1], cells[2], cells[3]});
        } else {
            const bool is_taken = cells[2].starts_with("=");
            options.push_back({cells[1], commands_in(cells[0]), cells[2].substr(is_taken ? 1 : 0),
                               cells[3], is_taken});
        }
    }
};

const TypedWords& typed_words() {
    static const TypedWords words;
    return words;
}

/// Small letters, '-' for '_'.
std::string plain(std::string_view typed) {
    return replaced(in_small_letters(typed), "_", "-");
}

/// `words` stand with blanks between them.
bool is_among(std::string_view word, std::string_view words) {
    return std::ranges::count(split(words, ' '), word) > 0;
}

std::string guess_text(std::string_view means, std::string_view text) {
    const std::string question = means.empty() ? "" : "did you mean " + std::string(means) + "?";
    return question + (question.empty() || text.empty() ? "" : " ") + std::string(text);
}

}  // namespace

const std::vector<TypedOption>& typed_options() {
    return typed_words().options;
}

const std::vector<TypedValue>& typed_values() {
    return typed_words().values;
}

const TypedOption* find_typed_option(std::string_view typed, Command command) {
    typed.remove_prefix(std::min(typed.find_first_not_of('-'), typed.size()));
    const std::string name = replaced(std::string(typed), "-", "_");
    const auto& rows = typed_options();
    const auto found = std::ranges::find_if(rows, [&](const TypedOption& row) {
        return is_among(name, row.typed) && (row.commands & bit_of(command)) != 0;
    });
    return found == rows.end() ? nullptr : &*found;
}

std::string option_guess(std::string_view typed, Command command) {
    const TypedOption* const row = find_typed_option(typed, command);
    return row == nullptr ? "" : guess_text(row->means, row->text);
}

std::string command_guess(std::string_view typed) {
    const std::string name = replaced(plain(typed), "-", "_");
    const auto& rows = typed_words().commands;
    const auto found = std::ranges::find_if(
        rows, [&](const TypedCommand& row) { return is_among(name, row.typed); });
    return found == rows.end()
               ? ""
               : guess_text(found->means.empty() ? "" : "shardweld " + std::string(found->means),
                            found->text);
}

std::string value_guess(std::string_view option, std::string_view typed,
                        const std::vector<std::string>& known) {
    const std::string name = plain(option);
    const std::string value = plain(typed);
    for (const TypedValue& row : typed_values()) {
        if (row.option == name && is_among(value, row.typed)) {
            return guess_text(row.means, row.text);
        }
    }
    for (const std::string& one : known) {
        // "vLLM", and "q8_0" for "gguf:q8_0".
        if (plain(one) == value || plain(one).ends_with(":" + value)) {
            return guess_text(one, "");
        }
    }
    return suggestion(typed, known);
}

}  // namespace shardweld::app
