// `shardweld report`: what a run's report says, for a terminal or as a page.
#include <algorithm>
#include <array>
#include <string>

#include "app/messages/table.hpp"
#include "app/report/report.hpp"
#include "app/report/report_json.hpp"
#include "app/report/run_page.hpp"
#include "app/report/run_record.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

using Cells = std::vector<std::vector<std::string>>;

constexpr std::size_t kShownRanks = 32;
constexpr std::size_t kShownLosses = 20;
constexpr std::size_t kLongestLine = 1000;
constexpr std::size_t kPageWidth = 96;

double number(Bytes bytes) {
    return static_cast<double>(bytes);
}

std::string head_text(const RunRecord& record) {
    const double seconds = record.seconds();
    Cells rows;
    const auto add = [&](const std::string& name, const std::string& value) {
        if (!value.empty()) {
            rows.push_back({name, printable(value, kLongestLine)});
        }
    };
    add(printable(record.title), record.input);
    add("format", record.format);
    add("model", record.model);
    add("target", record.target);
    add("started", record.started);
    add("ended", record.code == 0
                     ? "well"
                     : "with code " + std::to_string(record.code) + " (" + record.ending + ")");
    for (const std::string_view line : split(record.message, '\n')) {
        add("", std::string(line));
    }
    const std::string size = counted(record.n_tensors, "tensor") + " in " +
                             counted(record.files.size(), "file") + ", " +
                             human_bytes(record.tensor_bytes);
    rows.push_back({"output", record.is_published ? size
                              : record.n_tensors == 0
                                  ? "nothing was published"
                                  : "nothing was published (planned: " + size + ")"});
    rows.push_back({"took", duration_text(seconds) + " with " +
                                counted(static_cast<std::size_t>(record.n_ranks), "rank")});
    for (const auto& [name, value] : record.facts) {
        add(name, value);
    }
    add("written by", record.tool);
    return table({Align::left, Align::left}, rows);
}

/// The largest first; many small ones are one row.
std::string ledger_text(const RunRecord& record) {
    if (record.stored == 0) {
        return "";
    }
    std::vector<LedgerRow> rows = record.ledger;
    std::stable_sort(rows.begin() + 1, rows.end(),
                     [](const LedgerRow& a, const LedgerRow& b) { return a.bytes > b.bytes; });
    Cells cells;
    for (std::size_t i = 0; i < std::min(rows.size(), kShownLosses); ++i) {
        const LedgerRow& row = rows[i];
        const bool is_ignored = row.fate == LedgerRow::Fate::ignored;
        cells.push_back({"  " + std::string(is_ignored ? "ignored " : "") + printable(row.name),
                         human_bytes(row.bytes),
                         percent_text(number(row.bytes), number(record.stored)),
                         bar(number(row.bytes), number(record.stored)), printable(row.reason)});
    }
    const std::string rest =
        rows.size() > kShownLosses
            ? "  and " + std::to_string(rows.size() - kShownLosses) + " smaller ones\n"
            : "";
    return "\nwhere " + human_bytes(record.stored) +
           (record.is_published ? " went\n" : " would have gone\n") +
           table({Align::left, Align::right, Align::right, Align::left, Align::left}, cells) + rest;
}

/// What a phase took on the quickest and the slowest rank.
std::string spread_of(const RunRecord& record, const std::string& phase) {
    double least = 0;
    double most = 0;
    bool is_first = true;
    for (const RecordedRank& rank : record.ranks) {
        double here = 0;
        for (const RecordedPhase& one : rank.phases) {
            here += one.name == phase ? one.wall_s : 0;
        }
        least = is_first ? here : std::min(least, here);
        most = std::max(most, here);
        is_first = false;
    }
    return record.ranks.size() < 2 || most <= 0
               ? ""
               : duration_text(least) + " to " + duration_text(most);
}

std::string phases_text(const RunRecord& record) {
    if (record.phases.empty()) {
        return "";
    }
    Cells cells{{"phase", "first rank", "", "ranks"}};
    for (const RecordedPhase& phase : record.phases) {
        cells.push_back({"  " + printable(phase.name), duration_text(phase.wall_s),
                         bar(phase.wall_s, record.seconds()), spread_of(record, phase.name)});
    }
    return "\n" + table({Align::left, Align::right, Align::left, Align::left}, cells);
}

std::string ranks_text(const RunRecord& record) {
    Bytes most = 0;
    for (const RecordedRank& rank : record.ranks) {
        most = std::max({most, rank.read, rank.sent, rank.written});
    }
    Cells cells{{"rank", "host", "read", "sent", "written", "memory", ""}};
    for (const RecordedRank* rank : record.shown_ranks(kShownRanks)) {
        cells.push_back({std::to_string(rank->rank), printable(rank->host), human_bytes(rank->read),
                         human_bytes(rank->sent), human_bytes(rank->written),
                         human_bytes(rank->peak), bar(number(rank->written), number(most))});
    }
    return cells.size() == 1 ? ""
                             : "\n" + table({Align::right, Align::left, Align::right, Align::right,
                                             Align::right, Align::right, Align::left},
                                            cells);
}

/// "  good     NAME: what was found".
std::string check_text(const Check& check) {
    constexpr std::size_t kWords = 11;
    constexpr std::array kStates{"good", "in part", "bad", "unknown"};
    std::string word = std::string("  ") + kStates[static_cast<std::size_t>(check.state)];
    word.resize(kWords, ' ');
    return word +
           wrapped(check.name + ": " + printable(check.text, kLongestLine), kWords, kPageWidth);
}

std::string checks_text(const RunRecord& record) {
    std::string text = "\nchecks\n";
    for (const Check& check : record.checks) {
        text += check_text(check);
    }
    text += record.warnings.empty() ? "\nno warnings\n"
                                    : "\n" + counted(record.warnings.size(), "warning") + "\n";
    for (const auto& [code, what] : record.warnings) {
        text +=
            "  " + wrapped(printable(code) + ": " + printable(what, kLongestLine), 4, kPageWidth);
    }
    return text;
}

std::string run_text(const RunRecord& record) {
    return head_text(record) + ledger_text(record) + phases_text(record) + ranks_text(record) +
           checks_text(record) +
           (record.command.empty()
                ? ""
                : "\ncommand\n  " + printable(record.command, 4 * kLongestLine) + "\n") +
           (record.command_note.empty()
                ? ""
                : "  " + printable(record.command_note, 4 * kLongestLine) + "\n");
}

}  // namespace

int show_report(const Options& options, std::ostream& out) {
    const bool is_model = io::is_directory(options.local_dir);
    const RunRecord record =
        read_run_record(is_model ? options.local_dir / publish::kKeptReport : options.local_dir);
    if (!options.html) {
        out << run_text(record);
        return 0;
    }
    write_json(run_page(record), *options.html, options.sync);
    out << "wrote " << options.html->string() << '\n';
    return 0;
}

}  // namespace shardweld::app
