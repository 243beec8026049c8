#include "own_files.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "core/text.hpp"
#include "io/beneath.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// What counts as the checkpoint: the directory that was given, or, when the files lie beside that,
/// the one that holds both.
fs::path root_of(const fs::path& given, const fs::path& hf_directory) {
    const bool is_below = io::is_within(hf_directory, io::without_dots(given));
    return is_below ? given : hf_directory.parent_path();
}

/// Opens the file so, and no other one that is put in its place or on the way to it meanwhile.
/// Local. Errors also as io::open_within.
io::InputFile open_own(const fs::path& file, const fs::path& root) {
    require_own(file, root);
    return io::open_within(file, root);
}

}  // namespace

void require_own(const fs::path& file, const fs::path& root) {
    if (const auto end = io::leads_out_of(file, root)) {
        throw Error(ErrorCode::corrupt,
                    printable(file.string(), 1000) +
                        " leads through a link out of the checkpoint, to " +
                        printable(end->string(), 1000),
                    "put the file itself there, or name the model's directory with --hf_config");
    }
}

publish::Opener own_opener(const fs::path& hf_directory, const fs::path& given) {
    return [root = root_of(given, hf_directory)](const fs::path& file) {
        return open_own(file, root);
    };
}

void note_links(const fs::path& given, formats::Location& location) {
    std::vector<fs::path> links = {location.directory};
    // The listing tells links without a call for each file.
    std::error_code failed;
    for (fs::directory_iterator entry(location.directory, failed);
         !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
        std::error_code unknown;
        if (entry->is_symlink(unknown)) {
            links.push_back(entry->path());
        }
    }
    std::sort(links.begin() + 1, links.end());
    std::size_t n_links = 0;
    std::string first;
    for (const fs::path& link : links) {
        const auto end = io::leads_out_of(link, given);
        if (end && n_links++ == 0) {
            first = printable(link.filename().string()) + " to " + printable(end->string(), 1000);
        }
    }
    if (n_links > 0) {
        location.warnings[kLinksOutside] =
            std::to_string(n_links) + (n_links == 1 ? " link leads" : " links lead") +
            " out of the checkpoint, " + first + ": what they lead to is read as part of it";
    }
}

}  // namespace shardweld::app
