#include "file_sets.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/index.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "directory_listing.hpp"

namespace shardweld::formats {

namespace {

constexpr std::string_view kOf = "-of-";
constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMostNamed = 5;

/// The numbers found of one set.
struct FoundNumbers {
    std::set<Index> numbers;
    Index count = 0;        ///< as the names state it
    std::size_t width = 0;  ///< of a padded number
};

/// By the text before and behind the number.
using Sets = std::map<std::pair<std::string, std::string>, FoundNumbers>;

void add(const std::string& file, Sets& sets) {
    const std::string_view name = file;
    const std::size_t of = name.rfind(kOf);
    if (of == std::string_view::npos || of == 0) {
        return;
    }
    const std::size_t begin = name.find_last_not_of(kDigits, of - 1) + 1;
    const std::size_t behind = of + kOf.size();
    const auto number = parse_index(name.substr(begin, of - begin));
    const auto count =
        parse_index(name.substr(behind, name.find_first_not_of(kDigits, behind) - behind));
    if (number && count) {
        FoundNumbers& found = sets[{file.substr(0, begin), file.substr(of)}];
        found.numbers.insert(*number);
        found.count = *count;
        found.width = std::max(found.width, name[begin] == '0' ? of - begin : 0);
    }
}

std::vector<std::string> missing(const Sets::value_type& set) {
    const auto& [around, found] = set;
    const Index first = *found.numbers.begin() == 0 ? 0 : 1;
    std::vector<std::string> names;
    for (Index at = 0; at < found.count && names.size() < kMostNamed; ++at) {
        if (!found.numbers.contains(first + at)) {
            const std::string digits = std::to_string(first + at);
            const std::size_t zeros = found.width - std::min(found.width, digits.size());
            names.push_back(around.first + std::string(zeros, '0') + digits + around.second);
        }
    }
    return names;
}

}  // namespace

void require_whole_sets(const std::vector<std::string>& files) {
    Sets sets;
    for (const std::string& file : files) {
        add(file, sets);
    }
    for (const Sets::value_type& set : sets) {
        const auto absent = missing(set);
        if (!absent.empty()) {
            throw Error(ErrorCode::not_found,
                        "of " + std::to_string(set.second.count) + " files of one set " +
                            std::to_string(set.second.numbers.size()) +
                            " are there; missing: " + name_list(absent),
                        "copy the missing ones too, or remove what is left of another model");
        }
    }
}

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
