// What a merge says at its end: the model, its files, the time, and what to type next.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

#include "report.hpp"

namespace shardweld::app {

/// What the report does not say.
struct Finished {
    fs::path target;
    fs::path report;          ///< "" if none was written
    std::string model_class;  ///< "" if config.json names none
    std::string crc;          ///< what was found of checksums, "" if nothing
    bool is_safetensors = true;
};

/// Several lines for people.
std::string summary_text(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases, const Finished& finished);

/// {"event": "summary", ...}, for programs.
std::string summary_json(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases, const Finished& finished);

}  // namespace shardweld::app
