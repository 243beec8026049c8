// Text in columns.
// Knows widths; nothing of what the cells hold.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shardweld::app {

enum class Align { left, right };

/// Rows as lines; columns as wide as their widest cell, two blanks apart. `aligns` has one value
/// per column; rows may be shorter.
std::string table(const std::vector<Align>& aligns,
                  const std::vector<std::vector<std::string>>& rows);
/// The same of many rows, which are made twice instead of kept.
std::string table(const std::vector<Align>& aligns, std::size_t n_rows,
                  const std::function<std::vector<std::string>(std::size_t)>& row_at);

/// Words in lines of at most `width`, where one is not longer itself; all lines but the first are
/// indented by `indent`, which counts for that one, too.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace shardweld::app
