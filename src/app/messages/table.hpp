// Tables and numbers as people read them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

namespace shardweld::app {

enum class Align { left, right };

/// The texts of a table, row by row.
using Cells = std::vector<std::vector<std::string>>;

/// Rows as lines; columns as wide as their widest cell, two blanks apart. `aligns` has one value
/// per column; rows may be shorter.
std::string table(const std::vector<Align>& aligns, const Cells& rows);
/// A table of many rows, which are made twice instead of kept.
std::string table(const std::vector<Align>& aligns, std::size_t n_rows,
                  const std::function<std::vector<std::string>(std::size_t)>& row_at);

/// How many columns a terminal gives to a text: two to Chinese, Japanese and Korean characters and
/// to most pictures, none to marks on the character before. As wcwidth(3) in a locale of UTF-8,
/// whatever the locale is.
std::size_t columns_of(std::string_view text);

/// Lines that are broader than `width` columns, broken between words: a line of two cells goes on
/// below its second one, a command with a backslash, so that a shell reads on, all others indented.
/// A word that is broader itself stays whole.
std::string fitted(std::string_view text, std::size_t width);

/// Words in lines of at most `width`, where one is not longer itself; all lines but the first are
/// indented by `indent`, which counts for that one, too.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

/// "8.03 B", "1.24 M", "640": in the units of model cards.
std::string human_count(Index count);

/// "0.05 s", "12 s", "3.4 min", "2.1 h".
std::string duration_text(double seconds);

/// "12.5 %"; of nothing: "0.0 %".
std::string percent_text(double part, double all);

/// Characters for a share, `widest` for all of it; at least one for anything.
std::string bar(double part, double all, std::size_t widest = 24);

}  // namespace shardweld::app
