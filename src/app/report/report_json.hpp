// A run's report as JSON (schema 1), and writing it. Knows the report's form only.
#pragma once

#include <string>

#include "report.hpp"

namespace shardweld::app {

/// The report as JSON text.
std::string to_json(const Report& report);

/// Writes JSON text under a temporary name, synced if asked, and renames it; a link is followed,
/// what is not a regular file is left alone. Local. Error(io), Error(space).
void write_json(const std::string& text, const fs::path& path, bool sync);

/// Writes the report in the same way. Local; one rank calls it. Error(io), Error(space).
void write_report(const Report& report, const fs::path& path, bool sync);

}  // namespace shardweld::app
