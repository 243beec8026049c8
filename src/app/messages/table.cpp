#include "table.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace shardweld::app {

std::string table(const std::vector<Align>& aligns,
                  const std::vector<std::vector<std::string>>& rows) {
    return table(aligns, rows.size(), [&](std::size_t i) { return rows[i]; });
}

std::string table(const std::vector<Align>& aligns, std::size_t n_rows,
                  const std::function<std::vector<std::string>(std::size_t)>& row_at) {
    std::vector<std::size_t> widths(aligns.size(), 0);
    for (std::size_t i = 0; i < n_rows; ++i) {
        const auto row = row_at(i);
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            widths[c] = std::max(widths[c], row[c].size());
        }
    }
    std::string text;
    for (std::size_t i = 0; i < n_rows; ++i) {
        const auto row = row_at(i);
        std::string line;
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            const std::string blanks(widths[c] - row[c].size(), ' ');
            line += c == 0 ? "" : "  ";
            line += aligns[c] == Align::left ? row[c] + blanks : blanks + row[c];
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
    std::string result;
    std::string line;
    for (const std::string_view word : split(text, ' ')) {
        if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
            result += line + "\n" + std::string(indent, ' ');
            line.clear();
        }
        line += (line.empty() ? "" : " ") + std::string(word);
    }
    return result + line + "\n";
}

}  // namespace shardweld::app
