// The little that decides whether a report may be replaced. Knows nothing of files.
#pragma once

#include <string>

#include "core/path.hpp"

namespace shardweld::publish {

/// What a report tells of its run.
struct ReportFacts {
    std::string command;
    fs::path output;          ///< the directory that was written; "" where none was, or unknown
    bool is_success = false;  ///< the run ended with code 0
};

}  // namespace shardweld::publish
