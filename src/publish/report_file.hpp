// A report on the disk: whether a file is one, and the step that puts a new one in its place.
#pragma once

#include <optional>
#include <string>

#include "core/path.hpp"

namespace shardweld::publish {

/// The name of the report that an output's directory holds.
inline constexpr const char* kKeptReport = "shardweld_report.json";

/// What a report tells of its run.
struct ReportFacts {
    fs::path output;          ///< the directory that was written; "" where none was, or unknown
    bool is_success = false;  ///< the run ended with code 0
};

/// What a file tells that is a report which this program wrote, of any command and version: one
/// JSON object with `schema`, `tool` (version, git) and `command`, at most 1 GiB, to its last byte.
/// Local; nullopt also where it cannot be read.
std::optional<ReportFacts> look_at_report(const fs::path& path);

/// The facts of the report at `path`, nullopt where there is none. Error(io) where it cannot be
/// read.
std::optional<ReportFacts> report_at(const fs::path& path);

/// Where the report of a run that failed is written when a better one has the name `report`:
/// "NAME.failed.json" beside "NAME.json". Pure.
fs::path failed_beside(const fs::path& report);

/// Why a report must not take the place of what is at this path: that is a directory, a special
/// file, or a file with anything but a report in it; "" where nothing is in the way, or nothing but
/// an empty file. Local. Error(io).
std::string why_not_replaced(const fs::path& report);

/// Writes a report in place of an older one, of an empty file or of nothing; a link stays one, and
/// what it leads to is replaced. What is replaced is what was looked at: where another file has
/// come meanwhile, that keeps its name. With `sync` it is on the disk. Local. Error(io),
/// Error(space).
void write_report(const std::string& text, const fs::path& report, bool sync);

}  // namespace shardweld::publish
