#include "directory_listing.hpp"

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr std::size_t kMostNamesShown = 20;

bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

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

}  // namespace

bool Listing::has_file(std::string_view name) const {
    return has(files, name);
}
bool Listing::has_directory(std::string_view name) const {
    return has(directories, name);
}

Listing list_directory(const fs::path& directory) {
    Listing listing;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        add_entry(entry, listing);
    }
    std::sort(listing.files.begin(), listing.files.end(), natural_less);
    std::sort(listing.directories.begin(), listing.directories.end(), natural_less);
    std::sort(listing.links.begin(), listing.links.end(), natural_less);
    return listing;
}

Listing try_list_directory(const fs::path& directory) {
    return io::is_directory(directory) ? list_directory(directory) : Listing{};
}

Listing readable_listing(const fs::path& directory) {
    std::error_code failed;
    const fs::directory_iterator readable(directory, failed);
    return failed ? Listing{} : list_directory(directory);
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

}  // namespace shardweld::formats
