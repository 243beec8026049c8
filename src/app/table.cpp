#include "table.hpp"

#include <algorithm>

namespace shardweld::app {

std::string table(const std::vector<Align>& aligns,
                  const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths(aligns.size(), 0);
    for (const auto& row : rows) {
        for (std::size_t c = 0; c < std::min(row.size(), widths.size()); ++c) {
            widths[c] = std::max(widths[c], row[c].size());
        }
    }
    std::string text;
    for (const auto& row : rows) {
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

}  // namespace shardweld::app
