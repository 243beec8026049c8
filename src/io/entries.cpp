#include "shardweld/io/entries.hpp"

#include "shardweld/io/errno.hpp"

namespace shardweld::io {

namespace {

template <typename Iterator>
std::vector<fs::directory_entry> all_of(const fs::path& directory) {
    std::error_code failed;
    std::vector<fs::directory_entry> entries;
    do {
        entries.clear();
        for (Iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
            entries.push_back(*at);
        }
    } while (failed == std::errc::interrupted);
    if (failed) {
        throw_errno(failed.value(), "read directory", directory);
    }
    return entries;
}

}  // namespace

std::vector<fs::directory_entry> entries_of(const fs::path& directory) {
    return all_of<fs::directory_iterator>(directory);
}

std::vector<fs::directory_entry> entries_below(const fs::path& directory) {
    return all_of<fs::recursive_directory_iterator>(directory);
}

}  // namespace shardweld::io
