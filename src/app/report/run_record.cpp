#include "run_record.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/index.hpp"
#include "core/json.hpp"
#include "core/redact.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "checkpoint_text.hpp"
#include "report_json.hpp"

namespace shardweld::app {

namespace {

using Json = nlohmann::json;
using CheckState = Check::State;

constexpr std::size_t kLongestText = 4000;
constexpr std::size_t kMostListed = 200;

// The JSON is of unknown origin: what is not there, or is something else, counts as not said.

/// A member of an object; null where there is none.
const Json& member(const Json& object, const char* name) {
    static const Json nothing;
    const auto at = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && at != object.end() ? *at : nothing;
}

/// Elements of a list, `most` at most.
std::vector<const Json*> elements(const Json& list, std::size_t most) {
    std::vector<const Json*> found;
    for (std::size_t i = 0; list.is_array() && i < std::min(list.size(), most); ++i) {
        found.push_back(&list[i]);
    }
    return found;
}

/// Text, number or truth value as text, cut at 4,000 bytes.
std::string shown_text(const Json& value) {
    std::string text = value.is_string()                         ? value.get<std::string>()
                       : value.is_number() || value.is_boolean() ? value.dump()
                                                                 : "";
    text = without_secrets(text);  // older versions wrote them down
    if (text.size() <= kLongestText) {
        return text;
    }
    std::size_t end = kLongestText;
    while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        --end;  // not in the middle of a letter
    }
    return text.substr(0, end) + " ...";
}

Bytes bytes_in(const Json& value) {
    return value.is_number_unsigned() ? value.get<Bytes>() : 0;
}

Index index_in(const Json& value) {
    return value.is_number_integer() && !value.is_number_unsigned() ? value.get<Index>()
           : value.is_number_unsigned() && value.get<Bytes>() <= std::numeric_limits<Index>::max()
               ? static_cast<Index>(value.get<Bytes>())
               : 0;
}

/// From 0 to a year.
double seconds_in(const Json& value) {
    constexpr double kYear = 366 * 86400.0;
    const double seconds = value.is_number() ? value.get<double>() : 0;
    return std::isfinite(seconds) ? std::clamp(seconds, 0.0, kYear) : 0;
}

/// Without overflow.
Bytes saturating_sum(Bytes a, Bytes b) {
    return a > std::numeric_limits<Bytes>::max() - b ? std::numeric_limits<Bytes>::max() : a + b;
}

/// A value of any kind on one line: "tp 2, pp 4".
std::string line_of(const Json& value) {
    if (!value.is_structured()) {
        return shown_text(value);
    }
    std::string text;
    std::size_t left = kMostListed;
    for (const auto& [name, inner] : value.items()) {
        if (left-- == 0) {
            return text + ", ...";
        }
        const std::string one = inner.is_structured() ? "..." : shown_text(inner);
        text += (text.empty() ? "" : ", ") + (value.is_object() ? name + " " : "") + one;
    }
    return text;
}

constexpr std::size_t kMostOdd = 1'000'000;

Check records_check(const Json& crc) {
    if (!crc.is_object()) {
        return {CheckState::unknown, "checksums of the input", "not looked at"};
    }
    const Bytes unchecked = bytes_in(member(crc, "unchecked_records"));
    const Bytes without = bytes_in(member(crc, "without"));
    std::string text = std::to_string(bytes_in(member(crc, "records"))) + " records (" +
                       human_bytes(bytes_in(member(crc, "bytes"))) + ") are as they state";
    text += unchecked == 0 ? "" : ", " + std::to_string(unchecked) + " were read only in part";
    text += without == 0 ? "" : ", " + std::to_string(without) + " state none";
    return {unchecked + without == 0 ? CheckState::good : CheckState::doubtful,
            "checksums of the input", text};
}

Check place_check(const Json& provenance) {
    const std::string standing = shown_text(member(provenance, "standing"));
    const std::string evidence = line_of(member(provenance, "evidence"));
    return {
        standing == "proved"       ? CheckState::good
        : standing == "consistent" ? CheckState::doubtful
                                   : CheckState::unknown,
        "every file in its place, of one save",
        evidence.empty() && standing == "unknown" ? "not looked at" : standing + ": " + evidence};
}

Check values_check(const Json& sanity) {
    const std::size_t n_odd = elements(member(sanity, "tensors"), kMostOdd).size();
    const bool is_looked_at = member(sanity, "checked") == Json(true);
    const CheckState state = !is_looked_at ? CheckState::unknown
                             : n_odd == 0  ? CheckState::good
                                           : CheckState::doubtful;
    return {state, "values of the output",
            is_looked_at ? counted(n_odd, "suspicious tensor") : "not looked at"};
}

Check ledger_check(const RunRecord& record) {
    if (record.stored == 0) {
        return {CheckState::unknown, "every stored byte accounted for", "nothing was read"};
    }
    Bytes accounted = 0;
    for (const LedgerRow& row : record.ledger) {
        accounted = saturating_sum(accounted, row.bytes);
    }
    const bool is_closed = accounted == record.stored;
    return {is_closed ? CheckState::good : CheckState::bad, "every stored byte accounted for",
            is_closed ? human_bytes(record.stored) + " in all"
                      : human_bytes(accounted) + " of " + human_bytes(record.stored)};
}

/// `record`: of the same report, with its ledger.
std::vector<Check> run_checks(const Json& report, const RunRecord& record) {
    std::vector<Check> checks{
        {record.code == 0 ? CheckState::good : CheckState::bad, "the run",
         record.code == 0 ? "ended well" : "ended with code " + std::to_string(record.code)},
        place_check(member(report, "provenance")),
        records_check(member(report, "crc")),
        ledger_check(record),
        values_check(member(report, "sanity"))};
    if (const Json& base = member(report, "base"); base.is_object()) {
        checks.push_back({CheckState::good, "beside the base",
                          line_of(member(base, "equal")) + " of " +
                              line_of(member(base, "compared")) + " tensors are equal"});
    }
    return checks;
}

constexpr Bytes kLongestRecord = Bytes{1} << 30U;
constexpr std::size_t kMostPhases = 64;
constexpr std::size_t kMostLines = 200;
constexpr std::size_t kLargestShown = 12;

std::vector<RecordedPhase> phases_in(const Json& list) {
    std::vector<RecordedPhase> phases;
    for (const Json* phase : elements(list, kMostPhases)) {
        phases.push_back(
            {shown_text(member(*phase, "name")), seconds_in(member(*phase, "wall_s"))});
    }
    return phases;
}

std::vector<RecordedRank> ranks_in(const Json& list) {
    std::vector<RecordedRank> ranks;
    for (const Json* rank : elements(list, RunRecord::kMostRows)) {
        ranks.push_back(
            {index_in(member(*rank, "rank")), shown_text(member(*rank, "host")),
             bytes_in(member(*rank, "peak_bytes")), bytes_in(member(*rank, "bytes_read")),
             bytes_in(member(*rank, "bytes_sent")), bytes_in(member(*rank, "bytes_written")),
             phases_in(member(*rank, "phases"))});
    }
    return ranks;
}

/// Several checkpoints have rows of their own for what is left aside in each: equal ones are one.
void add_row(const LedgerRow& row, std::vector<LedgerRow>& rows) {
    const auto same = std::ranges::find_if(rows, [&](const LedgerRow& other) {
        return other.fate == row.fate && other.name == row.name && other.reason == row.reason;
    });
    if (same == rows.end()) {
        rows.push_back(row);
    } else {
        same->bytes = saturating_sum(same->bytes, row.bytes);
    }
}

void add_ledger(const Json& ledger, RunRecord& record) {
    using RowFate = LedgerRow::Fate;
    record.stored = bytes_in(member(ledger, "stored"));
    const bool is_there = record.is_published;
    record.ledger = {{RowFate::written, is_there ? "written" : "planned",
                      is_there ? "in the model, each element once" : "but not published",
                      bytes_in(member(ledger, "consumed"))},
                     {RowFate::replica, "replicas", "held again by other files",
                      bytes_in(member(ledger, "replica"))},
                     {RowFate::padding, "padding", "rows that only fill the vocabulary up",
                      bytes_in(member(ledger, "padding"))}};
    const Json& ignored = member(ledger, "ignored");
    for (const Json* row : elements(ignored, RunRecord::kMostRows)) {
        add_row({RowFate::ignored, shown_text(member(*row, "pattern")),
                 shown_text(member(*row, "reason")), bytes_in(member(*row, "bytes"))},
                record.ledger);
    }
}

/// Hosts with their numbers of ranks: "node1 x 8, node2 x 8".
std::string hosts_text(const Json& list) {
    std::vector<std::pair<std::string, std::size_t>> hosts;
    for (const Json* host : elements(list, RunRecord::kMostRows)) {
        const std::string name = shown_text(*host);
        if (hosts.empty() || hosts.back().first != name) {
            hosts.emplace_back(name, 0);
        }
        ++hosts.back().second;
    }
    return joined(hosts, ", ", [](const auto& host) {
        return host.first + (host.second > 1 ? " x " + std::to_string(host.second) : std::string());
    });
}

void add_facts(const Json& root, RunRecord& record) {
    const auto add = [&](const std::string& name, const std::string& value) {
        if (!value.empty()) {
            record.facts.emplace_back(name, value);
        }
    };
    const Json& plan = member(root, "plan");
    const std::string why = shown_text(member(plan, "why"));
    Json facts = member(member(root, "input"), "facts");
    if (facts.is_object()) {
        leave_shown(facts);
    }
    add("parallel sizes", line_of(facts));
    if (const Json& resume = member(root, "resume"); resume.is_object()) {
        add("taken up", human_bytes(bytes_in(member(resume, "bytes_reused"))) +
                            " that an earlier merge had written");
    }
    add("strategy", shown_text(member(plan, "strategy")) + (why.empty() ? "" : ": " + why));
    add("plan", shown_text(member(plan, "hash")));
    add("root of all tensors", shown_text(member(root, "root")));
    const Json& environment = member(root, "environment");
    constexpr std::array<std::string_view, 4> kElsewhere = {"command_line", "launcher",
                                                            "launcher_unseen", "started"};
    for (const auto& [name, value] : environment.items()) {
        if (environment.is_object() && std::ranges::find(kElsewhere, name) == kElsewhere.end()) {
            add(printable(name), name == "hosts" ? hosts_text(value) : line_of(value));
        }
    }
}

void add_output(const Json& root, RunRecord& record) {
    for (const Json* file : elements(member(root, "files"), RunRecord::kMostRows)) {
        record.files.push_back(
            {shown_text(member(*file, "name")), bytes_in(member(*file, "bytes"))});
    }
    const Json& tensors = member(root, "tensors");
    for (const Json* tensor : elements(tensors, tensors.size())) {
        const Bytes bytes = bytes_in(member(*tensor, "bytes"));
        record.tensor_bytes = saturating_sum(record.tensor_bytes, bytes);
        ++record.n_tensors;
        record.largest.push_back({shown_text(member(*tensor, "name")), bytes});
        if (record.largest.size() > 4 * kLargestShown) {
            std::stable_sort(record.largest.begin(), record.largest.end(),
                             [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
            record.largest.resize(kLargestShown);
        }
    }
    std::stable_sort(record.largest.begin(), record.largest.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    record.largest.resize(std::min(record.largest.size(), kLargestShown));
}

/// The command with its launcher, and what is not known of that.
void add_command(const Json& environment, RunRecord& record) {
    const std::string own = shown_text(member(environment, "command_line"));
    const std::string launcher = shown_text(member(environment, "launcher"));
    const std::string unseen = shown_text(member(environment, "launcher_unseen"));
    // Launchers may write the program with its directory.
    const bool is_whole = !own.empty() && launcher.ends_with(own.substr(own.find(' ') + 1));
    record.command = is_whole ? launcher : own;
    if (!launcher.empty() && !is_whole) {
        record.command_note = "started by " + launcher;
    } else if (launcher.empty() && record.n_ranks > 1) {
        record.command_note = unseen.empty() ? "how the ranks were started is not known" : unseen;
    }
}

/// "2026-02-28T23:59:59Z" as "2026-02-28 23:59 UTC"; anything else is no time.
std::string minute_in(const Json& value) {
    const std::string text = shown_text(value);
    constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
    const auto fits = [](char form, char c) {
        return form == 'd' ? c >= '0' && c <= '9' : c == form;
    };
    return std::ranges::equal(kForm, text, fits)
               ? text.substr(0, 10) + " " + text.substr(11, 5) + " UTC"
               : "";
}

/// The checkpoint's directory; of several checkpoints all.
std::string inputs_in(const Json& root) {
    const std::vector<const Json*> mixed = elements(member(root, "mixed"), kMostLines);
    return mixed.empty() ? shown_text(member(member(root, "input"), "dir"))
                         : counted(mixed.size(), "checkpoint") + ": " +
                               joined(mixed, ", ", [](const Json* one) {
                                   return shown_text(member(*one, "dir"));
                               });
}

RunRecord record_in(const Json& root) {
    RunRecord record;
    const Json& tool = member(root, "tool");
    const Json& ending = member(root, "exit");
    const Json& input = member(root, "input");
    record.title = shown_text(member(root, "command"));
    record.tool = "shardweld " + shown_text(member(tool, "version")) + " (" +
                  shown_text(member(tool, "git")) + ")";
    record.code = index_in(member(ending, "code"));
    record.ending = shown_text(member(ending, "name"));
    const Json& published = member(root, "published");
    record.is_published = published.is_boolean() ? published.get<bool>() : record.code == 0;
    record.is_published = record.is_published || record.title != "merge";
    record.message = shown_text(member(ending, "message"));
    for (const Json* where : elements(member(ending, "where"), kMostLines)) {
        record.message += "\nwhere: " + shown_text(*where);
    }
    if (const std::string hint = shown_text(member(ending, "hint")); !hint.empty()) {
        record.message += "\nhint: " + hint;
    }
    record.started = minute_in(member(member(root, "environment"), "started"));
    record.model = shown_text(member(root, "model_class"));
    record.target = shown_text(member(root, "target"));
    record.input = inputs_in(root);
    record.format = shown_text(member(input, "format"));
    record.input_bytes = bytes_in(member(input, "bytes"));
    record.n_ranks = index_in(member(member(root, "environment"), "ranks"));
    add_command(member(root, "environment"), record);
    record.phases = phases_in(member(root, "phases"));
    record.ranks = ranks_in(member(root, "ranks"));
    add_ledger(member(root, "ledger"), record);
    add_facts(root, record);
    add_output(root, record);
    record.checks = run_checks(root, record);
    for (const Json* warning : elements(member(root, "warnings"), kMostLines)) {
        const std::string tensor = shown_text(member(*warning, "tensor"));
        record.warnings.emplace_back(
            shown_text(member(*warning, "code")),
            (tensor.empty() ? "" : tensor + ": ") + shown_text(member(*warning, "text")));
    }
    return record;
}

/// Without what nothing is shown of, and what most of a large report is.
Json parsed(const std::string& text) {
    return shardweld::parse_json<Json>(
        without_nonfinite(text), nullptr, [](int, Json::parse_event_t event, Json& value) {
            return event != Json::parse_event_t::key || (value != "sources" && value != "xxh3_128");
        });
}

}  // namespace

double seconds_of(const std::vector<RecordedPhase>& phases) {
    double sum = 0;
    for (const RecordedPhase& phase : phases) {
        sum += phase.wall_s;
    }
    return sum;
}

std::string RunRecord::headline() const {
    const auto last_of = [](const std::string& path) {
        const fs::path whole(path);
        return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
    };
    const std::string name = last_of(target);
    return model.empty() ? title + (name.empty() ? "" : " into " + name)
                         : model + (name.empty() ? "" : " in " + name);
}

std::vector<const RecordedRank*> RunRecord::shown_ranks(std::size_t most) const {
    const auto time_of = [](const RecordedRank& rank) {
        double sum = 0;
        for (const RecordedPhase& phase : rank.phases) {
            sum += phase.wall_s;
        }
        return sum;
    };
    const auto slowest = std::max_element(
        ranks.begin(), ranks.end(),
        [&](const RecordedRank& a, const RecordedRank& b) { return time_of(a) < time_of(b); });
    std::vector<const RecordedRank*> shown;
    const std::size_t step = std::max<std::size_t>(1, (ranks.size() + most - 1) / most);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (i % step == 0 || &ranks[i] == &*slowest) {
            shown.push_back(&ranks[i]);
        }
    }
    return shown;
}

RunRecord read_run_record(const fs::path& path) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::corrupt, path.string() + " is no report of a run: " + why,
                    "give one that --report has written");
    };
    const Json root = parsed(io::read_text(path, kLongestRecord));
    if (!root.is_object()) {
        refuse("it is no JSON object");
    }
    if (!member(root, "ledger").is_object() || !member(root, "phases").is_array()) {
        refuse("it has no ledger and no phases");
    }
    if (member(root, "schema") != Json(kReportSchema)) {
        throw Error(ErrorCode::unsupported,
                    path.string() + " is a report of schema " +
                        printable(member(root, "schema").dump()) + ", this version reads schema 1",
                    "show it with the version that wrote it");
    }
    return record_in(root);
}

}  // namespace shardweld::app
