#include "diary.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "app/messages/hidden.hpp"
#include "app/report/report_json.hpp"
#include "core/names.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "io/directory.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"

namespace shardweld::app::watching {

namespace {

using nlohmann::ordered_json;

constexpr Bytes kMostDiary = Bytes{1} << 30U;

std::string field(const nlohmann::json& line, const char* name) {
    const auto at = line.find(name);
    return at != line.end() && at->is_string() ? at->get<std::string>() : "";
}

Index number_in(const nlohmann::json& line, const char* name) {
    const auto at = line.find(name);
    return at != line.end() && at->is_number_integer() ? at->get<Index>() : 0;
}

void note_delta(const nlohmann::json& line, Earlier& earlier) {
    Links& links = earlier.links[field(line, "directory")];
    const std::string step = field(line, "step");
    links.last = {step, number_in(line, "number"), parse_index(field(line, "version")).value_or(0)};
    links.done.insert(step);
}

/// A model that is made anew has no delta yet.
void forget_delta(const std::string& step, Earlier& earlier) {
    for (auto& [directory, links] : earlier.links) {
        links.done.erase(step);
    }
}

void note(const nlohmann::json& line, Earlier& earlier) {
    const std::string event = field(line, "event");
    const std::string step = field(line, "step");
    if (!is_plain_name(step)) {
        return;
    }
    if (event == "merging" || event == "made") {
        forget_delta(step, earlier);
    }
    if (event == "delta") {
        note_delta(line, earlier);
    } else if (event == "removed") {
        earlier.removed[step] = field(line, "inputs");
    } else if (event == "merging") {
        earlier.removed.erase(step);
        if (line.value("then", nlohmann::json()) == true) {
            earlier.unfollowed.insert(step);
        }
        if (line.value("upload", nlohmann::json()) == true) {
            earlier.unsent.insert(step);
        }
    } else if (event == "made" || event == "complete") {
        earlier.unsent.erase(step);
    } else if (event == "then") {
        earlier.unfollowed.erase(step);
    }
}

/// A line of a metric, with what it is.
std::string metric(const char* name, const char* type, const char* help, double value) {
    std::array<char, 64> number{};
    (void)std::snprintf(number.data(), number.size(), "%.17g", value);
    const std::string full = std::string("shardweld_watch_") + name;
    return "# HELP " + full + " " + help + "\n# TYPE " + full + " " + type + "\n" + full + " " +
           number.data() + "\n";
}

std::string counter(const char* name, const char* help, double value) {
    return metric(name, "counter", help, value);
}

std::string gauge(const char* name, const char* help, double value) {
    return metric(name, "gauge", help, value);
}

}  // namespace

Earlier earlier_in(const std::string& text) {
    Earlier earlier;
    for (const std::string_view line : split(text, '\n')) {
        const nlohmann::json parsed = parse_with_nonfinite(std::string(line));
        if (parsed.is_object()) {
            note(parsed, earlier);
        }
    }
    return earlier;
}

Diary::Diary(const fs::path& out, Log& log, bool is_for_program)
    : log_(log), is_for_program_(is_for_program), file_(out, kDiary) {
    const std::string text =
        io::text_of(io::InputFile::open(io::Directory(out), kDiary), kMostDiary);
    earlier_ = earlier_in(text);
    // The end of a watch that was killed while it wrote.
    if (!text.empty() && text.back() != '\n') {
        (void)file_.add("\n");
    }
}

void Diary::write(const std::string& event, const ordered_json& fields) {
    ordered_json line = {{"time", utc_now()}, {"event", event}};
    line.update(hidden(fields));
    const std::string text =
        line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    const bool is_written = file_.add(text);
    if (!is_written && !is_failing_) {
        log_.warning(std::string(kDiary) + " cannot be written: " + text_of_errno(errno));
    }
    is_failing_ = !is_written;
    if (is_for_program_) {
        log_.write_object(text.substr(0, text.size() - 1));
    }
}

std::string metrics_text(const Counts& counts) {
    const auto number = [](Index value) { return static_cast<double>(value); };
    return counter("steps_made_total", "Steps merged.", number(counts.made)) +
           counter("steps_complete_total", "Steps whose output was there already.",
                   number(counts.complete)) +
           counter("steps_failed_total", "Merges that failed.", number(counts.failed)) +
           counter("steps_lost_total", "Steps deleted while they were read.", number(counts.lost)) +
           counter("outputs_removed_total", "Outputs removed by --keep.", number(counts.removed)) +
           counter("then_failed_total", "Commands of --then that failed.",
                   number(counts.then_failed)) +
           counter("deltas_made_total", "Deltas written.", number(counts.deltas)) +
           counter("bytes_written_total", "Bytes of tensors written.",
                   static_cast<double>(counts.bytes)) +
           counter("merge_seconds_total", "Time spent on merges.", counts.seconds) +
           gauge("steps", "Steps in the run, of those asked for.", number(counts.steps)) +
           gauge("steps_waiting", "Steps that are not merged yet.", number(counts.waiting)) +
           gauge("last_step", "Number of the step merged last, -1 if none was.",
                 number(counts.last_step.value_or(-1))) +
           gauge("last_made_timestamp_seconds", "When that was.", counts.last_made) +
           gauge("last_look_timestamp_seconds", "When the run was looked at last.",
                 counts.last_look);
}

void write_metrics(const Counts& counts, const fs::path& file) {
    const fs::path fresh = file.string() + ".tmp";
    std::error_code ignored;
    fs::remove(fresh, ignored);
    io::write_text(fresh, metrics_text(counts), false);
    fs::rename(fresh, file);
}

}  // namespace shardweld::app::watching
