#include "run_page.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "app/messages/shown_numbers.hpp"
#include "core/text.hpp"

#include "html.hpp"
#include "ledger_flow.hpp"
#include "page_style.hpp"

namespace shardweld::app {

namespace {

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

std::string header(const RunRecord& record) {
    const bool is_good = record.code == 0;
    const std::string badge =
        element("span", std::string("class=\"badge ") + (is_good ? "good\"" : "bad\""),
                is_good ? "ended well"
                        : "code " + std::to_string(record.code) + ": " + text(record.ending));
    return element(
               "header", "",
               element("h1", "", "shardweld " + text(record.title) + badge) +
                   element("p", "class=\"path\"",
                           text(record.input) +
                               (record.format.empty() ? "" : " &middot; " + text(record.format)))) +
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

double total(const std::vector<RecordedPhase>& phases) {
    double sum = 0;
    for (const RecordedPhase& phase : phases) {
        sum += phase.wall_s;
    }
    return sum;
}

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
    double longest = total(record.phases);
    for (const RecordedRank* rank : ranks) {
        longest = std::max(longest, total(rank->phases));
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
    switch (state) {
        case Check::State::good:
            return element("span", "class=\"sign good\"", "&#10003;");
        case Check::State::doubtful:
            return element("span", "class=\"sign doubt\"", "~");
        case Check::State::bad:
            return element("span", "class=\"sign bad\"", "&#10007;");
        default:
            return element("span", "class=\"sign unknown\"", "?");
    }
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

std::string body(const RunRecord& record) {
    return header(record) + tiles(record) + card("Where every byte went", ledger_flow(record)) +
           card("Time, by rank", time_line(record)) +
           (record.ranks.empty() ? "" : card("What each rank did", ranks_table(record))) +
           element("div", "class=\"two\"",
                   card("Checks", checks_list(record)) + card("Warnings", warnings_list(record))) +
           (record.command.empty()
                ? ""
                : card("The command", element("pre", "", text(record.command)))) +
           element("div", "class=\"two\"",
                   card("Files", sizes_table(record.files, "--p0")) +
                       card("Largest tensors", sizes_table(record.largest, "--p3"))) +
           card("How it was run", facts_list(record)) +
           element("footer", "", "written by " + text(record.tool));
}

}  // namespace

std::string run_page(const RunRecord& record) {
    return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
           "'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
           "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">" +
           element("title", "", "shardweld " + text(record.title) + ": " + text(record.input)) +
           element("style", "", kPageStyle) + "</head>\n" +
           element("body", "", element("main", "", body(record))) + "</html>\n";
}

}  // namespace shardweld::app
