#include "ledger_flow.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "app/messages/shown_numbers.hpp"
#include "core/text.hpp"

#include "html.hpp"

namespace shardweld::app {

namespace {

constexpr double kHeight = 260;   ///< of the bar that all bytes are
constexpr double kLeastRow = 66;  ///< three lines of text
constexpr double kLeastBand = 1.5;
constexpr std::size_t kMostBands = 8;

struct FlowRow {
    const char* style;
    std::string name;
    std::string reason;
    Bytes bytes = 0;
    double band = 0;  ///< height
    double row = 0;
};

const char* style_of(LedgerRow::Fate fate) {
    switch (fate) {
        case LedgerRow::Fate::written:
            return "written";
        case LedgerRow::Fate::replica:
            return "replica";
        case LedgerRow::Fate::padding:
            return "padding";
        default:
            return "ignored";
    }
}

/// Those that have bytes, the largest first; the smallest together.
std::vector<FlowRow> rows_of(const RunRecord& record) {
    std::vector<FlowRow> rows;
    for (const LedgerRow& row : record.ledger) {
        if (row.bytes > 0) {
            rows.push_back({style_of(row.fate), row.name, row.reason, row.bytes});
        }
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const FlowRow& a, const FlowRow& b) { return a.bytes > b.bytes; });
    if (rows.size() > kMostBands) {
        FlowRow rest{"ignored", counted(rows.size() - kMostBands + 1, "other kind"), "", 0};
        for (std::size_t i = kMostBands - 1; i < rows.size(); ++i) {
            rest.bytes += rows[i].bytes;
        }
        rows.resize(kMostBands - 1);
        rows.push_back(rest);
    }
    double all = 0;
    for (const FlowRow& row : rows) {
        all += static_cast<double>(row.bytes);
    }
    for (FlowRow& row : rows) {
        row.band = std::max(kLeastBand, kHeight * static_cast<double>(row.bytes) / all);
        row.row = std::max(kLeastRow, row.band + 6);
    }
    return rows;
}

/// From the bar's stretch at `from` to the row's at `to`.
std::string band(const FlowRow& row, double from, double to) {
    std::array<char, 400> path{};
    (void)std::snprintf(
        path.data(), path.size(),
        "<path class=\"band %s\" d=\"M5 %.2fC50 %.2f 50 %.2f 97 %.2fV%.2fC50 %.2f 50 "
        "%.2f 5 %.2fZ\"/><rect class=\"%s\" x=\"0\" y=\"%.2f\" width=\"5\" "
        "height=\"%.2f\"/><rect class=\"%s\" x=\"97\" y=\"%.2f\" width=\"3\" "
        "height=\"%.2f\"/>",
        row.style, from, from, to, to, to + row.band, to + row.band, from + row.band,
        from + row.band, row.style, from, row.band, row.style, to, row.band);
    return path.data();
}

std::string label(const FlowRow& row, Bytes all) {
    const std::string share =
        percent_text(static_cast<double>(row.bytes), static_cast<double>(all));
    std::array<char, 48> height{};
    (void)std::snprintf(height.data(), height.size(), "style=\"height:%.2fpx\"", row.row);
    return element(
        "li", height.data(),
        element("span", "class=\"what\" title=\"" + escaped(row.name) + "\"", escaped(row.name)) +
            element("span", "class=\"much\"", human_bytes(row.bytes) + " &middot; " + share) +
            element("small", "title=\"" + escaped(row.reason) + "\"", escaped(row.reason)));
}

}  // namespace

std::string ledger_flow(const RunRecord& record) {
    const std::vector<FlowRow> rows = rows_of(record);
    if (rows.empty()) {
        return "<p>Nothing was read.</p>";
    }
    double height = 0;
    double bands = 0;
    for (const FlowRow& row : rows) {
        height += row.row;
        bands += row.band;
    }
    double from = (height - bands) / 2;
    double to = 0;
    std::string drawn;
    std::string labels;
    for (const FlowRow& row : rows) {
        drawn += band(row, from, to + (row.row - row.band) / 2);
        labels += label(row, record.stored);
        from += row.band;
        to += row.row;
    }
    std::array<char, 160> frame{};
    (void)std::snprintf(frame.data(), frame.size(),
                        "viewBox=\"0 0 100 %.2f\" style=\"height:%.2fpx\" "
                        "preserveAspectRatio=\"none\" aria-hidden=\"true\"",
                        height, height);
    return element("div", "class=\"flow\"",
                   element("svg", frame.data(), drawn) + element("ul", "", labels));
}

}  // namespace shardweld::app
