// Counts what a reader leaves aside, for the report.
// Knows no format.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/file.hpp"

namespace shardweld::formats {

/// One row for each pair of pattern and reason.
class IgnoredRows {
  public:
    void add(const std::pair<std::string, std::string>& row, Index count, Bytes bytes);
    /// Adds rows counted elsewhere.
    void add(const std::vector<catalogue::Ignored>& rows);
    [[nodiscard]] std::vector<catalogue::Ignored> take() const;

  private:
    std::map<std::pair<std::string, std::string>, catalogue::Ignored> rows_;
};

}  // namespace shardweld::formats
