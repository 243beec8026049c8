// What a report says of the output it describes, read back, and how an output differs from it.
#pragma once

#include <string>
#include <vector>

#include "core/path.hpp"

#include "report.hpp"

namespace shardweld::app {

/// What of a report tells of its output: tensors, files, root, and, unless a version before 0.2 has
/// written it, where the output lies and what it was made of. Error(not_found) when there is no
/// such file, Error(corrupt) when it is no report, Error(unsupported) for another schema,
/// Error(usage) when the run it describes failed or computed no checksums.
Report read_reported_output(const fs::path& path);

/// Lines naming each tensor that differs, is missing or is too much, in the order of the report.
/// Empty when `found` is the output that `reported` describes. Pure.
std::vector<std::string> output_differences(const OutputReport& reported,
                                            const OutputReport& found);

}  // namespace shardweld::app
