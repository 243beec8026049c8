#include "text_rows.hpp"

#include <algorithm>
#include <string>

#include "core/text.hpp"

#include "command_table.hpp"

namespace shardweld::app {

std::string_view text_part(std::string_view text, std::string_view part) {
    const std::string heading = "\n[" + std::string(part) + "]\n";
    text.remove_prefix(text.find(heading) + heading.size());
    text = text.substr(0, text.find("\n["));
    return text.substr(0, text.find_last_not_of('\n') + 2);
}

std::vector<TextRow> text_rows(std::string_view text, std::string_view part) {
    std::vector<TextRow> rows;
    for (const std::string_view line : split(text_part(text, part), '\n')) {
        if (!line.empty() && !line.starts_with("#")) {
            TextRow& row = rows.emplace_back();
            const auto cells = split(line, '|');
            for (std::size_t i = 0; i < std::min(cells.size(), row.size()); ++i) {
                row[i] = trim(cells[i]);
            }
        }
    }
    return rows;
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
