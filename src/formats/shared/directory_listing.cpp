#include "directory_listing.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "catalogue/claims.hpp"
#include "core/index.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr std::size_t kMostNamesShown = 20;

void add_entry(const fs::directory_entry& entry, Listing& listing) {
    // The listing itself tells the kind of all but links, without a request for each.
    const bool is_link = entry.is_symlink();
    const io::FileKind kind = is_link                   ? io::kind_at(entry.path())
                              : entry.is_directory()    ? io::FileKind::directory
                              : entry.is_regular_file() ? io::FileKind::file
                                                        : io::FileKind::other;
    if (kind != io::FileKind::directory && kind != io::FileKind::file) {
        return;
    }
    std::string name = entry.path().filename().string();
    if (is_link) {
        listing.links.push_back(name);
    }
    (kind == io::FileKind::directory ? listing.directories : listing.files)
        .push_back(std::move(name));
}

/// Whether something of a directory fits one pattern of a row.
bool has_like(const Listing& listing, std::string_view pattern,
              const std::vector<std::string_view>& but = {}) {
    const bool is_directory = pattern.ends_with('/');
    pattern.remove_suffix(is_directory ? 1 : 0);
    return std::ranges::any_of(
        is_directory ? listing.directories : listing.files,
        [&](const std::string& name) { return matches(pattern, name) && !matches_any(but, name); });
}

}  // namespace

bool Listing::has_file(std::string_view name) const {
    return contains(files, name);
}
bool Listing::has_directory(std::string_view name) const {
    return contains(directories, name);
}

Listing list_directory(const fs::path& directory) {
    Listing listing;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        add_entry(entry, listing);
    }
    std::ranges::sort(listing.files, natural_less);
    std::ranges::sort(listing.directories, natural_less);
    std::ranges::sort(listing.links, natural_less);
    return listing;
}

Listing try_list_directory(const fs::path& directory) {
    return io::is_directory(directory) ? list_directory(directory) : Listing{};
}

Listing readable_listing(const fs::path& directory) {
    try {
        return list_directory(directory);
    } catch (const Error&) {
        return {};
    }
}

bool fits(const NameRule& rule, const Listing& listing) {
    return std::ranges::any_of(
               rule.patterns,
               [&](std::string_view pattern) { return has_like(listing, pattern, rule.but); }) &&
           std::ranges::all_of(
               rule.beside, [&](std::string_view pattern) { return has_like(listing, pattern); });
}

const NameRule* rule_for(const std::vector<NameRule>& rules, const Listing& listing) {
    return find_where(rules, [&](const NameRule& one) { return fits(one, listing); });
}

std::string name_list(const std::vector<std::string>& names) {
    const std::size_t shown = std::min(names.size(), kMostNamesShown);
    std::string text = joined(std::span(names).first(shown), ", ",
                              [](const std::string& name) { return printable(name); });
    if (shown < names.size()) {
        text += " and " + std::to_string(names.size() - shown) + " more";
    }
    return text;
}

namespace {

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
    const auto parts = match_name("*{number}-of-{count}*", file);
    if (!parts) {
        return;
    }
    const std::string_view number = parts->at("number");
    const auto begin = static_cast<std::size_t>(number.data() - file.data());
    FoundNumbers& found = sets[{file.substr(0, begin), file.substr(begin + number.size())}];
    found.numbers.insert(parts->number("number"));
    found.count = parts->number("count");
    found.width = std::max(found.width, number.starts_with('0') ? number.size() : 0);
}

std::vector<std::string> missing(const Sets::value_type& set) {
    const FoundNumbers& found = set.second;
    const Index first = *found.numbers.begin() == 0 ? 0 : 1;
    const auto absent =
        catalogue::not_covered(found.numbers, first, found.count - 1 + first, kMostNamed);
    return collect_list(absent, [&](Index number) {
        return set.first.first + zero_filled(std::to_string(number), found.width) +
               set.first.second;
    });
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

constexpr Bytes kLargestConfig = kMiB;

}  // namespace

bool is_run_config(const fs::path& file) {
    try {
        const auto root = parse_json<nlohmann::json>(io::read_text(file, kLargestConfig));
        return root.is_object() && root.contains("model") && root["model"].is_object() &&
               !root.contains("model_type") && !root.contains("architectures");
    } catch (const Error&) {
        return false;
    }
}

namespace {

constexpr const char* kIntegrityFile = "integrity.json";
constexpr Bytes kLargestIntegrityFile = 64U << 20U;
constexpr std::size_t kSumDigits = 64;

bool is_sum(const nlohmann::json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    return text.size() == kSumDigits &&
           text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Megatron lists files of the directory itself.
bool is_file_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::map<std::string, std::string> sums_in(const nlohmann::json& root) {
    if (!root.is_object() || !root.contains("files") || !root["files"].is_object()) {
        throw Error(ErrorCode::corrupt, "is not a JSON object with `files`");
    }
    const auto algorithm = root.value("algorithm", nlohmann::json());
    if (algorithm != "sha256") {
        throw Error(
            ErrorCode::unsupported,
            "lists sums by the algorithm " + printable(algorithm.dump(), 60) + ", not sha256",
            "check them with the framework and remove the file");
    }
    std::map<std::string, std::string> sums;
    for (const auto& [name, sum] : root["files"].items()) {
        if (!is_file_name(name) || !is_sum(sum)) {
            throw Error(ErrorCode::corrupt,
                        "has an entry that is no file's SHA-256: " + printable(name, 200));
        }
        sums[name] = sum.get<std::string>();
    }
    return sums;
}

}  // namespace

std::map<std::string, std::string> listed_sums(const fs::path& directory) {
    const fs::path path = directory / kIntegrityFile;
    if (!io::is_file(path)) {
        return {};
    }
    try {
        return sums_in(parse_json<nlohmann::json>(io::read_text(path, kLargestIntegrityFile)));
    } catch (Error& error) {
        error.add_context("file " + path.string());
        throw;
    }
}

}  // namespace shardweld::formats
