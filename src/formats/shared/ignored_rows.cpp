#include "ignored_rows.hpp"

namespace shardweld::formats {

void IgnoredRows::add(const std::pair<std::string, std::string>& row, Index count, Bytes bytes) {
    catalogue::Ignored& counted = rows_[row];
    counted.count = checked_add(counted.count, count, "things left aside");
    counted.bytes = checked_add_bytes(counted.bytes, bytes, "bytes left aside");
}

void IgnoredRows::add(const std::vector<catalogue::Ignored>& rows) {
    for (const catalogue::Ignored& row : rows) {
        add({row.pattern, row.reason}, row.count, row.bytes);
    }
}

std::vector<catalogue::Ignored> IgnoredRows::take() const {
    std::vector<catalogue::Ignored> rows;
    for (const auto& [key, counted] : rows_) {
        rows.push_back({key.first, key.second, counted.count, counted.bytes});
    }
    return rows;
}

}  // namespace shardweld::formats
