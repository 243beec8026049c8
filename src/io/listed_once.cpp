#include "listed_once.hpp"

#include <utility>

#include "core/lists.hpp"

namespace shardweld::io {

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local ListedOnce* remembering = nullptr;

std::string key_of(const fs::path& directory) {
    return (directory.has_filename() ? directory : directory.parent_path()).string();
}

}  // namespace

ListedOnce::ListedOnce() : is_outermost_(remembering == nullptr) {
    if (is_outermost_) {
        remembering = this;
    }
}

ListedOnce::~ListedOnce() {
    if (is_outermost_) {
        remembering = nullptr;
    }
}

ListedOnce* ListedOnce::current() {
    return remembering;
}

const ListedOnce::ListedEntries* ListedOnce::listing_of(const fs::path& directory) const {
    return find_value(listings_, key_of(directory));
}

const ListedOnce::Entries* ListedOnce::entries_of(const fs::path& directory) const {
    const ListedEntries* const listing = listing_of(directory);
    return listing == nullptr ? nullptr : &listing->entries;
}

const ListedOnce::Entries& ListedOnce::keep(const fs::path& directory, Entries entries) {
    ListedEntries& listing = listings_[key_of(directory)];
    listing.entries = std::move(entries);
    for (const std::size_t i : indices(listing.entries)) {
        listing.by_name[listing.entries[i].path().filename().string()] = i;
    }
    return listing.entries;
}

std::optional<const fs::directory_entry*> ListedOnce::find(const fs::path& path) const {
    const fs::path name = path.filename();
    const ListedEntries* const listing = listing_of(path.parent_path());
    if (listing == nullptr || name.empty() || name == "." || name == "..") {
        return std::nullopt;
    }
    const auto at = listing->by_name.find(name.string());
    return at == listing->by_name.end() ? nullptr : &listing->entries[at->second];
}

}  // namespace shardweld::io
