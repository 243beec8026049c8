#include "unnamed_files.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kReason = "a file that .metadata does not name";
// A file of safetensors without a tensor, as the writer makes it, has 88 bytes; the smallest item
// is larger.
constexpr Bytes kNoContent = 128;

}  // namespace

void note_unnamed(const Location& location, const std::vector<std::string>& files,
                  const std::vector<std::string>& named, catalogue::Catalogue& out) {
    const std::set<std::string_view> known(named.begin(), named.end());
    const std::set<std::string_view> shards(files.begin(), files.end());
    for (const Neighbour& neighbour : location.neighbours) {
        if (shards.contains(neighbour.path) && !known.contains(neighbour.path) &&
            neighbour.bytes > kNoContent) {
            out.ignored.push_back({neighbour.path, kReason, 1, neighbour.bytes});
        }
    }
}

void tell_unnamed(catalogue::Catalogue& catalogue) {
    catalogue::Ignored all{"*.distcp", kReason, 0, 0};
    std::vector<std::string> names;
    for (const catalogue::Ignored& row : catalogue.ignored) {
        if (row.reason == kReason) {
            names.push_back(row.pattern);
            ++all.count;
            all.bytes = checked_add_bytes(all.bytes, row.bytes, "bytes of files left aside");
        }
    }
    if (names.empty()) {
        return;
    }
    std::erase_if(catalogue.ignored,
                  [](const catalogue::Ignored& row) { return row.reason == kReason; });
    catalogue.ignored.push_back(std::move(all));
    std::sort(names.begin(), names.end(), natural_less);
    catalogue.warnings["unreferenced_files"] =
        std::to_string(names.size()) + " shard file(s) with " +
        human_bytes(catalogue.ignored.back().bytes) +
        " are not named in .metadata and not read: " + listed(names) +
        "; do they belong to another save?";
}

}  // namespace shardweld::formats
