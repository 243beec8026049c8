#include <algorithm>

#include <unistd.h>

#include "app/messages/log.hpp"
#include "app/messages/table.hpp"
#include "app/runtime/external.hpp"
#include "app/settings/nearest.hpp"
#include "app/settings/option_table.hpp"
#include "app/settings/option_value.hpp"
#include "app/settings/text_rows.hpp"
#include "app/settings/typed_words.hpp"
#include "core/process/shared_object.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "parse_options.hpp"

namespace shardweld::app {

/// The text of docs/using/errors.md. The build makes it.
std::string_view exit_codes_page();

namespace {

/// The width of the terminal that shows the help, also through a pager; a program that shows it
/// tells in COLUMNS.
std::size_t help_width() {
    constexpr std::size_t kLeast = 40;
    constexpr std::size_t kMost = 96;
    constexpr std::size_t kUsual = 80;
    std::size_t width = width_of(STDOUT_FILENO);
    width = width > 0 ? width : width_of(STDERR_FILENO);
    const Index told = parse_index(variable("COLUMNS").value_or("")).value_or(0);
    width = width > 0 ? width : told > 0 ? as_size(told) : kUsual;
    return std::clamp(width, kLeast, kMost);
}

/// Where the help of an option begins: below its name where a terminal is narrow.
std::size_t name_column() {
    constexpr std::size_t kNarrow = 72;
    return help_width() < kNarrow ? 10 : 26;
}

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(text.size(), width), ' ');
    return text;
}

std::string option_text(const OptionRow& row, const CommandRow& command) {
    std::string name = row.letter == 0 ? "      " : std::string("  -") + row.letter + ", ";
    name += "--" + std::string(row.name);
    if (!row.is_flag()) {
        name += " " + std::string(row.value);
    }
    const std::size_t column = name_column();
    name = padded(name, column);
    if (name.size() > column - 1 && name.back() != ' ') {
        name += "\n" + std::string(column, ' ');
    }
    return name + wrapped(help_for(row, command), column, help_width());
}

std::string heading(const CommandRow& command) {
    return "Usage: " + std::string(command.usage) + "\n\n" + std::string(command.summary) + "\n";
}

/// The usual options only.
std::string short_help(const CommandRow& command) {
    std::string text = heading(command) + "\n" +
                       add_up(usual_options(command),
                              [&](const OptionRow* row) { return option_text(*row, command); });
    const std::string name(command.name);
    return text + "\nAll options, and examples: shardweld " + name + " --help, or man shardweld-" +
           name + "\n";
}

std::string command_help(const CommandRow& command) {
    std::string text = heading(command);
    std::string_view group;
    for (const OptionRow* row : listed_options(command)) {
        if (row->group != group) {
            group = row->group;
            text += "\n" + std::string(group) + "\n";
        }
        text += option_text(*row, command);
    }
    return text + "\n" + std::string(command.about);
}

std::string overview() {
    return std::string(text_part(commands_page(), "overview")) + commands_text() + "\n" +
           std::string(text_part(commands_page(), "below"));
}

CommandRow command_called(const std::string& topic) {
    std::vector<std::string> known;
    for (const CommandRow& command : command_rows()) {
        if (command.name == topic) {
            return command;
        }
        known.emplace_back(command.name);
    }
    if (find_installed_command(topic)) {
        return installed_row(topic);
    }
    const std::string meant = command_guess(topic);
    throw Error(ErrorCode::usage, "there is no help on " + printable(topic),
                meant.empty() ? suggestion(topic, known) : meant);
}

/// A paragraph of Markdown as a terminal shows it: links are their text, lines are filled.
std::string paragraph_text(std::string_view paragraph) {
    std::string text;
    while (!paragraph.empty()) {
        const std::size_t close = paragraph.find("](");
        const std::size_t open = paragraph.substr(0, close).rfind('[');
        if (close == std::string_view::npos || open == std::string_view::npos) {
            text += paragraph;
            break;
        }
        text += paragraph.substr(0, open);
        text += paragraph.substr(open + 1, close - open - 1);
        paragraph.remove_prefix(std::min(paragraph.find(')', close), paragraph.size() - 1) + 1);
    }
    std::ranges::replace(text, '\n', ' ');
    return wrapped(text, 0, help_width());
}

/// What the documents say of an exit code, or of all.
std::string codes_help(const std::string& topic) {
    constexpr std::string_view kHeading = "\n## ";
    const std::string_view page = exit_codes_page();
    std::string text;
    for (std::size_t at = page.find(kHeading); at != std::string_view::npos;) {
        const std::size_t end = page.find(kHeading, at + 1);
        const std::string_view section = trim(page.substr(at, end - at).substr(kHeading.size()));
        const std::size_t code_end = section.find_first_of(" \n");
        if (topic == "codes" || section.substr(0, code_end) == topic) {
            const std::size_t title_end = section.find('\n');
            text += (text.empty() ? "" : "\n") + std::string("Exit code ") +
                    std::string(section.substr(0, title_end)) + "\n\n" +
                    paragraph_text(trim(section.substr(title_end)));
        }
        at = end;
    }
    if (text.empty()) {
        throw Error(ErrorCode::usage, "there is no exit code " + printable(topic),
                    "shardweld help codes lists them");
    }
    return text;
}

/// The completion that the build made of `help --json`, from where it is installed.
std::string completion_for(const std::string& shell) {
    const Words<std::string> files = {{"bash", "bash-completion/completions/shardweld"},
                                      {"zsh", "zsh/site-functions/_shardweld"},
                                      {"fish", "fish/vendor_completions.d/shardweld.fish"}};
    const std::string file = "../share/" + word_in({"completion", shell}, files);
    const auto path = find_installed(file);
    if (!path) {
        throw Error(ErrorCode::not_found,
                    installed_places(file).front().lexically_normal().string() +
                        " is not there, which is installed with the program",
                    "take the program with the share directory beside its bin");
    }
    return io::read_text(*path);
}

}  // namespace

std::string commands_text() {
    std::string text;
    const auto add = [&](std::string_view name, std::string_view summary) {
        text += padded("  " + std::string(name) + "  ", 20) + std::string(summary) + "\n";
    };
    for (const CommandRow& command : command_rows()) {
        add(command.name, command.summary);
    }
    for (const std::string& name : installed_commands()) {
        try {
            add(name, installed_row(name).summary);
        } catch (const Error&) {
            add(name, "(broken)");
        }
    }
    return text + padded("  help", 20) + "print this text, or a command's: shardweld help merge\n";
}

std::string help_text(const std::string& topic, HelpForm form) {
    constexpr std::string_view kCompletion = "--completion=";
    if (form == HelpForm::json) {
        return topic.empty() ? help_json() : help_json_of(command_called(topic));
    }
    if (topic.starts_with(kCompletion)) {
        return completion_for(topic.substr(kCompletion.size()));
    }
    if (topic == "codes" || parse_index(topic)) {
        return codes_help(topic);
    }
    if (topic.empty() || topic == "help") {
        return fitted(overview(), help_width());
    }
    const CommandRow command = command_called(topic);
    return fitted(form == HelpForm::brief ? short_help(command) : command_help(command),
                  help_width());
}

}  // namespace shardweld::app
