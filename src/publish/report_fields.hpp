// How a report of a run is known: by its fields.
#pragma once

#include <optional>

#include "report_facts.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::publish {

/// What a file tells if it is a report; nullopt otherwise. Its text is not kept in memory.
std::optional<ReportFacts> report_in(const io::InputFile& file);

}  // namespace shardweld::publish
