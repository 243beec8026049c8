// A report as JSON, written and, as far as it tells of its output, read back; and the parts of it
// that other JSON texts of the program show alike.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/path.hpp"

#include "report.hpp"

namespace shardweld::app {

using nlohmann::ordered_json;

inline constexpr int kReportSchema = 1;

ordered_json json_of(const TensorEntry& tensor);
/// How near codes are to the weight.
ordered_json json_of(const numeric::Quality& quality, const std::string& encoding);
ordered_json json_of(const catalogue::Ignored& ignored);
ordered_json json_of(const catalogue::Provenance& provenance);
ordered_json json_of(const plan::Ledger& ledger);
ordered_json json_of(const MixedInput& mixed);
ordered_json json_of(const Warning& warning);
ordered_json json_of(const FileEntry& file);
ordered_json json_of(const OddTensor& tensor);
ordered_json json_of(const BaseSummary& base);

/// A text, or null for what is not known; a value, or null where there is none.
ordered_json json_or_null(const std::string& text);
template <typename T>
ordered_json json_or_null(const std::optional<T>& value) {
    return value ? ordered_json(*value) : ordered_json();
}

/// Names, or null where none are known.
ordered_json quotas_json(const std::optional<std::vector<std::string>>& quotas);

/// All values of a list.
template <typename T>
ordered_json json_list(const std::vector<T>& values);

/// A file's text as a value; a discarded one (is_discarded()) when it is not valid JSON or nested
/// deeper than any file that is read.
nlohmann::json parse_with_nonfinite(const std::string& text);

/// The text to print or write: two-space indent, one final newline; text that is not UTF-8 is
/// replaced, never an error.
std::string json_text(const ordered_json& json);

/// Prints the text of an object whose list of this name, empty in `json`, has items that are made
/// one by one: as values, a million of them would take gigabytes.
void print_json(std::ostream& out, const ordered_json& json, const std::string& list,
                std::size_t size, const std::function<ordered_json(std::size_t)>& item);

/// The report of a run and one of its outputs as JSON text.
std::string to_json(const RunReport& run, const OutputReport& output);

/// Writes JSON text under a temporary name, synced if asked, and renames it; a link is followed,
/// what is not a regular file is left alone. Local. Error(io), Error(space).
void write_json(const std::string& text, const fs::path& path, bool sync);

/// Writes the report in the same way. Local; one rank calls it. Error(io), Error(space).
void write_report(const RunReport& run, const OutputReport& output, const fs::path& path,
                  bool sync);

/// The part of a report that tells of its output: tensors, files, root, and, unless a version
/// before 0.2 has written it, where the output lies and what it was made of. Error(not_found) when
/// there is no such file, Error(corrupt) when it is no report, Error(unsupported) for another
/// schema, Error(usage) when the run it describes failed or computed no checksums.
Report read_reported_output(const fs::path& path);

/// The same part of a report's text, which `path` holds; without checksums where none count. Pure.
Report parse_reported_output(const std::string& text, const fs::path& path, bool has_checksums);

/// Lines naming each tensor that differs, is missing or is too much, in the order of the report.
/// Empty when `found` is the output that `reported` describes. Pure.
std::vector<std::string> output_differences(const OutputReport& reported,
                                            const OutputReport& found);

}  // namespace shardweld::app
