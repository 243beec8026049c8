#include "command_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/text.hpp"

#include "text_rows.hpp"

namespace shardweld::app {

namespace {

Command command_named(std::string_view name) {
    constexpr std::pair<std::string_view, Command> kCommands[] = {
        {"merge", Command::merge},     {"reshape", Command::merge},   {"plan", Command::plan},
        {"inspect", Command::inspect}, {"recipes", Command::recipes}, {"test", Command::test},
        {"diff", Command::diff},       {"verify", Command::verify},   {"clean", Command::clean},
        {"mount", Command::mount},     {"unmount", Command::unmount}};
    return std::ranges::find(kCommands, name, &std::pair<std::string_view, Command>::first)->second;
}

std::vector<std::string_view> words_in(std::string_view cell) {
    return cell.empty() ? std::vector<std::string_view>() : split(cell, ' ');
}

CommandRow command_row(const TextRow& row) {
    const auto [name, others, usual, none] = row;
    const std::string_view text = text_part(commands_page(), name);
    const std::size_t usage = text.find('\n');
    const std::size_t summary = text.find('\n', usage + 1);
    return {name,
            command_named(name),
            words_in(others),
            text.substr(0, usage),
            text.substr(usage + 1, summary - usage - 1),
            text.substr(summary + 2),
            words_in(usual),
            name == "reshape",
            name == "reshape" ? "merge" : ""};
}

}  // namespace

const std::vector<CommandRow>& command_rows() {
    static const std::vector<CommandRow> rows = [] {
        std::vector<CommandRow> made;
        std::ranges::transform(text_rows(commands_page(), "commands"), std::back_inserter(made),
                               command_row);
        return made;
    }();
    return rows;
}

const CommandRow& row_for(Command command) {
    return *std::ranges::find(command_rows(), command, &CommandRow::command);
}

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

}  // namespace shardweld::app
