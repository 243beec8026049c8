// Tables that are texts: parts under a heading "[part]", a row a line, columns with "|" between
// them.
#pragma once

#include <array>
#include <string_view>
#include <vector>

namespace shardweld::app {

/// What stands below "[part]", up to the next part; without the empty lines at its end.
std::string_view text_part(std::string_view text, std::string_view part);

/// The columns of a row; "" where it has fewer.
using TextRow = std::array<std::string_view, 4>;

/// The rows of a part of `text`, without lines that are empty or begin with '#'.
std::vector<TextRow> text_rows(std::string_view text, std::string_view part);

}  // namespace shardweld::app
