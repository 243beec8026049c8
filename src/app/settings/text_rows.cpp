#include "text_rows.hpp"

#include <algorithm>
#include <string>

#include "core/text.hpp"

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

}  // namespace shardweld::app
