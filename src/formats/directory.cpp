#include "directory.hpp"

#include <algorithm>
#include <system_error>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::formats {

namespace {

constexpr std::size_t kMostNamesShown = 20;

bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

void add_entry(const fs::directory_entry& entry, Listing& listing) {
    std::error_code failed;
    const bool is_directory = entry.is_directory(failed);
    if (!is_directory && !entry.is_regular_file(failed)) {
        return;
    }
    std::string name = entry.path().filename().string();
    // Known from the listing itself: costs no further call.
    if (entry.is_symlink(failed)) {
        listing.links.push_back(name);
    }
    (is_directory ? listing.directories : listing.files).push_back(std::move(name));
}

[[noreturn]] void refuse(const fs::path& directory, const std::error_code& failed) {
    const bool absent =
        failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory;
    const bool is_memory = failed == std::errc::not_enough_memory;
    throw Error(absent      ? ErrorCode::not_found
                : is_memory ? ErrorCode::memory
                            : ErrorCode::io,
                "cannot list directory " + directory.string() + ": " + failed.message());
}

}  // namespace

bool Listing::has_file(std::string_view name) const {
    return has(files, name);
}
bool Listing::has_directory(std::string_view name) const {
    return has(directories, name);
}

Listing list_directory(const fs::path& directory) {
    std::error_code failed;
    Listing listing;
    fs::directory_iterator entry(directory, failed);
    while (!failed && entry != fs::directory_iterator()) {
        add_entry(*entry, listing);
        entry.increment(failed);
    }
    if (failed) {
        refuse(directory, failed);
    }
    std::sort(listing.files.begin(), listing.files.end(), natural_less);
    std::sort(listing.directories.begin(), listing.directories.end(), natural_less);
    std::sort(listing.links.begin(), listing.links.end(), natural_less);
    return listing;
}

Listing try_list_directory(const fs::path& directory) {
    std::error_code failed;
    return fs::is_directory(directory, failed) ? list_directory(directory) : Listing{};
}

std::optional<std::string> first_with_suffix(const Listing& listing, std::string_view suffix) {
    const auto at = std::find_if(listing.files.begin(), listing.files.end(),
                                 [&](const std::string& name) { return name.ends_with(suffix); });
    return at == listing.files.end() ? std::nullopt : std::optional(*at);
}

std::string name_list(const std::vector<std::string>& names) {
    std::string text;
    const std::size_t shown = std::min(names.size(), kMostNamesShown);
    for (std::size_t i = 0; i < shown; ++i) {
        text += (i == 0 ? "" : ", ") + printable(names[i]);
    }
    if (shown < names.size()) {
        text += " and " + std::to_string(names.size() - shown) + " more";
    }
    return text;
}

}  // namespace shardweld::formats
