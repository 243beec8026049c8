#include "run_page.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/messages/table.hpp"
#include "core/text.hpp"

#include "run_record.hpp"

namespace shardweld::app {

/// The text of run_page.css. The build makes it.
std::string_view run_page_style();

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string_view escape_of(char c) {
    switch (c) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '"':
            return "&quot;";
        case '\'':
            return "&#39;";
        default:
            return "";
    }
}

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
    constexpr std::array kStyles{"written", "replica", "padding", "ignored"};
    static_assert(kStyles.size() == static_cast<std::size_t>(LedgerRow::Fate::ignored) + 1);
    return kStyles[static_cast<std::size_t>(fate)];
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
        element("span", R"(class="what" title=")" + escaped(row.name) + "\"", escaped(row.name)) +
            element("span", R"(class="much")", human_bytes(row.bytes) + " &middot; " + share) +
            element("small", "title=\"" + escaped(row.reason) + "\"", escaped(row.reason)));
}

/// HTML: bands as wide as their bytes, and beside them what they are.
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
    const std::string all =
        element("b", "", human_bytes(record.stored)) + " " + element("small", "", "stored");
    return element(
        "div", "class=\"flow\"",
        element("p", "", all) + element("svg", frame.data(), drawn) + element("ul", "", labels));
}

constexpr std::size_t kDrawnRanks = 48;
constexpr std::size_t kListedFiles = 100;

std::string text(const std::string& value) {
    return escaped(value);
}

std::string card(const std::string& title, const std::string& content) {
    return element("section", "class=\"card\"", element("h2", "", title) + content);
}

std::string width(double part, double all) {
    std::array<char, 48> style{};
    (void)std::snprintf(style.data(), style.size(), "width:%.3f%%",
                        all > 0 ? std::clamp(100 * part / all, 0.0, 100.0) : 0.0);
    return style.data();
}

std::string tile(const std::string& value, const std::string& name) {
    return element("div", "class=\"tile\"", element("b", "", value) + element("span", "", name));
}

std::string tiles(const RunRecord& record) {
    const double seconds = record.seconds();
    Bytes peak = 0;
    for (const RecordedRank& rank : record.ranks) {
        peak = std::max(peak, rank.peak);
    }
    const Bytes speed =
        seconds > 0 ? static_cast<Bytes>(static_cast<double>(record.tensor_bytes) / seconds) : 0;
    return element(
        "div", "class=\"tiles\"",
        tile(human_bytes(record.tensor_bytes), "of tensors") +
            tile(std::to_string(record.n_tensors), "tensors") +
            tile(duration_text(seconds), "in all") + tile(human_bytes(speed) + "/s", "of output") +
            tile(std::to_string(record.n_ranks), record.n_ranks == 1 ? "rank" : "ranks") +
            (peak > 0 ? tile(human_bytes(peak), "memory of a rank, at most") : "") +
            tile(std::to_string(record.warnings.size()),
                 record.warnings.size() == 1 ? "warning" : "warnings"));
}

std::string place_line(const std::string& way, const std::string& path, const std::string& format) {
    return path.empty() ? ""
                        : element("p", "class=\"path\"",
                                  way + " " + text(path) +
                                      (format.empty() ? "" : " &middot; " + text(format)));
}

std::string header(const RunRecord& record) {
    const bool is_good = record.code == 0;
    const std::string badge =
        element("span", std::string("class=\"badge ") + (is_good ? "good\"" : "bad\""),
                is_good ? "ended well"
                        : "code " + std::to_string(record.code) + ": " + text(record.ending));
    return element("header", "",
                   element("h1", "", text(record.headline()) + badge) +
                       element("p", "class=\"when\"",
                               "shardweld " + text(record.title) +
                                   (record.started.empty() ? "" : ", " + text(record.started))) +
                       place_line("from", record.input, record.format) +
                       place_line("to", record.target, "")) +
           (record.message.empty() ? ""
                                   : element("div", "class=\"card error\"", text(record.message)));
}

/// Phases of one name have one colour, in the order in which they are met.
class Colours {
  public:
    std::string of(const std::string& phase) {
        constexpr std::size_t kColours = 10;
        const auto at = numbers_.emplace(phase, numbers_.size()).first;
        return "--c:var(--p" + std::to_string(at->second % kColours) + ")";
    }

  private:
    std::map<std::string, std::size_t> numbers_;
};

std::string lane(const std::string& name, const std::vector<RecordedPhase>& phases, double longest,
                 Colours& colours) {
    constexpr double kRoomForName = 0.09;
    std::string parts;
    for (const RecordedPhase& phase : phases) {
        const bool has_room = phase.wall_s > kRoomForName * longest;
        parts += element("i",
                         "style=\"" + width(phase.wall_s, longest) + ";" + colours.of(phase.name) +
                             "\" title=\"" + text(phase.name) + ": " + duration_text(phase.wall_s) +
                             "\"",
                         has_room ? text(phase.name) : "");
    }
    return element("span", "class=\"name\"", name) + element("div", "class=\"lane\"", parts);
}

std::string axis(double longest) {
    constexpr int kSteps = 4;
    std::string marks;
    for (int i = 0; i <= kSteps; ++i) {
        marks += element("span", "", i == 0 ? "0" : duration_text(longest * i / kSteps));
    }
    return "<span></span>" + element("div", "class=\"axis\"", marks);
}

std::string legend(const RunRecord& record, Colours& colours) {
    std::string items;
    for (const RecordedPhase& phase : record.phases) {
        items += element("li", "",
                         "<i style=\"" + colours.of(phase.name) + "\"></i>" + text(phase.name) +
                             " " + element("span", "", duration_text(phase.wall_s)));
    }
    return element("ul", "class=\"legend\"", items);
}

std::string chosen_note(const RunRecord& record, std::size_t n_shown) {
    return n_shown == record.ranks.size()
               ? ""
               : element("p", "",
                         element("small", "",
                                 std::to_string(n_shown) + " of " +
                                     std::to_string(record.ranks.size()) +
                                     " ranks, evenly chosen, with the slowest"));
}

std::string rank_name(const RecordedRank& rank) {
    return "rank " + std::to_string(rank.rank) +
           element("span", "class=\"host\"", " &middot; " + text(rank.host));
}

std::string time_line(const RunRecord& record) {
    Colours colours;
    std::vector<const RecordedRank*> ranks = record.shown_ranks(kDrawnRanks);
    std::erase_if(ranks, [](const RecordedRank* rank) { return rank->phases.empty(); });
    double longest = record.seconds();
    for (const RecordedRank* rank : ranks) {
        longest = std::max(longest, seconds_of(rank->phases));
    }
    for (const RecordedPhase& phase : record.phases) {
        (void)colours.of(phase.name);  // in their order
    }
    std::string lanes;
    for (const RecordedRank* rank : ranks) {
        lanes += lane(rank_name(*rank), rank->phases, longest, colours);
    }
    if (ranks.empty()) {
        lanes = lane("first rank", record.phases, longest, colours);
    }
    return element("div", "class=\"lines\"", lanes + axis(longest)) + legend(record, colours) +
           (ranks.empty() ? "" : chosen_note(record, ranks.size()));
}

std::string meter(Bytes part, Bytes all, const char* colour) {
    return element("div", "class=\"meter\"",
                   "<i style=\"" + width(static_cast<double>(part), static_cast<double>(all)) +
                       ";--c:var(" + colour + ")\"></i>");
}

std::string amount(Bytes part, Bytes all, const char* colour) {
    return element("td", "class=\"bar\"", human_bytes(part) + meter(part, all, colour));
}

std::string ranks_table(const RunRecord& record) {
    Bytes most = 0;
    Bytes peak = 0;
    for (const RecordedRank& rank : record.ranks) {
        most = std::max({most, rank.read, rank.sent, rank.written});
        peak = std::max(peak, rank.peak);
    }
    const auto ranks = record.shown_ranks(kDrawnRanks);
    std::string rows = "<tr><th>Rank<th>Read<th>Sent to others<th>Written<th>Memory, at most</tr>";
    for (const RecordedRank* rank : ranks) {
        rows += element("tr", "",
                        element("td", "", rank_name(*rank)) + amount(rank->read, most, "--p1") +
                            amount(rank->sent, most, "--p2") + amount(rank->written, most, "--p0") +
                            amount(rank->peak, peak, "--p3"));
    }
    return element("div", "class=\"scroll\"", element("table", "", rows)) +
           chosen_note(record, ranks.size());
}

std::string sign(Check::State state) {
    constexpr std::array<std::pair<const char*, const char*>, 4> kSigns{
        {{"good", "&#10003;"}, {"doubt", "~"}, {"bad", "&#10007;"}, {"unknown", "?"}}};
    const auto& [style, text] = kSigns[static_cast<std::size_t>(state)];
    return element("span", "class=\"sign " + std::string(style) + "\"", text);
}

std::string checks_list(const RunRecord& record) {
    std::string items;
    for (const Check& check : record.checks) {
        items += element(
            "li", "",
            sign(check.state) +
                element("span", "", text(check.name) + element("small", "", text(check.text))));
    }
    return element("ul", "class=\"checks\"", items);
}

std::string warnings_list(const RunRecord& record) {
    if (record.warnings.empty()) {
        return "<p>None.</p>";
    }
    std::string items;
    for (const auto& [code, what] : record.warnings) {
        items += element(
            "li", "",
            sign(Check::State::doubtful) +
                element("span", "",
                        element("code", "", text(code)) + element("small", "", text(what))));
    }
    return element("ul", "class=\"checks\"", items);
}

std::string sizes_table(const std::vector<RecordedFile>& entries, const char* colour) {
    Bytes most = 0;
    for (const RecordedFile& entry : entries) {
        most = std::max(most, entry.bytes);
    }
    std::string rows;
    for (std::size_t i = 0; i < std::min(entries.size(), kListedFiles); ++i) {
        const RecordedFile& entry = entries[i];
        rows += element(
            "tr", "",
            element("td", "",
                    element("code", "", text(entry.name)) + meter(entry.bytes, most, colour)) +
                element("td", "class=\"n\"", human_bytes(entry.bytes)));
    }
    if (entries.size() > kListedFiles) {
        rows += "<tr><td>and " + std::to_string(entries.size() - kListedFiles) + " more<td></tr>";
    }
    return element("div", "class=\"scroll\"", element("table", "", rows));
}

std::string facts_list(const RunRecord& record) {
    std::string items;
    for (const auto& [name, value] : record.facts) {
        items += element("dt", "", text(name)) + element("dd", "", text(value));
    }
    return element("dl", "", items);
}

std::string command_card(const RunRecord& record) {
    return element("pre", "", text(record.command)) +
           (record.command_note.empty()
                ? ""
                : element("p", "", element("small", "", text(record.command_note))));
}

/// For a list of tabs: the model, its directory and the day first.
std::string tab_title(const RunRecord& record) {
    const std::string day = record.started.substr(0, record.started.find(' '));
    return record.headline() + (record.code == 0 ? "" : ", failed") +
           (day.empty() ? "" : ", " + day) + " - shardweld " + record.title;
}

std::string body(const RunRecord& record) {
    return header(record) + (record.n_tensors == 0 ? "" : tiles(record)) +
           card("Where every byte went", ledger_flow(record)) +
           card("Time, by rank", time_line(record)) +
           (record.ranks.empty() ? "" : card("What each rank did", ranks_table(record))) +
           element("div", "class=\"two\"",
                   card("Checks", checks_list(record)) + card("Warnings", warnings_list(record))) +
           (record.command.empty() ? "" : card("The command", command_card(record))) +
           (record.files.empty()
                ? ""
                : element("div", "class=\"two\"",
                          card("Files", sizes_table(record.files, "--p0")) +
                              card("Largest tensors", sizes_table(record.largest, "--p3")))) +
           card("How it was run", facts_list(record)) +
           element("footer", "", "written by " + text(record.tool));
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const auto [bytes, point] = take_character(text);
        const bool is_shown = point == U'\n' || !is_unseen(point);
        const std::string_view escape = escape_of(bytes.front());
        out += !is_shown ? kReplacement : escape.empty() ? bytes : escape;
    }
    return out;
}

std::string element(std::string_view name, std::string_view attributes, std::string_view content) {
    const std::string tag(name);
    return "<" + tag + (attributes.empty() ? "" : " ") + std::string(attributes) + ">" +
           std::string(content) + "</" + tag + ">";
}

std::string run_page(const RunRecord& record) {
    return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
           "'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
           "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">" +
           element("title", "", text(tab_title(record))) +
           element("style", "", "\n" + std::string(run_page_style())) + "</head>\n" +
           element("body", "", element("main", "", body(record))) + "</html>\n";
}

}  // namespace shardweld::app
