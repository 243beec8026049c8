// A report as one page of HTML that needs nothing else: no script, no network.
#pragma once

#include <string>
#include <string_view>

#include "run_record.hpp"

namespace shardweld::app {

/// As text or as an attribute's value: markup is escaped; control characters, and those that turn
/// the direction of writing, become a replacement sign. `text` is UTF-8.
std::string escaped(std::string_view text);

/// "<name attributes>content</name>"; content is HTML already, attributes are as they stand.
std::string element(std::string_view name, std::string_view attributes, std::string_view content);

/// Everything that came from the report is escaped.
std::string run_page(const RunRecord& record);

}  // namespace shardweld::app
