#include "own_files.hpp"

#include "core/text.hpp"
#include "io/beneath.hpp"
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

}  // namespace

publish::Opener own_opener(const fs::path& hf_directory, const fs::path& given) {
    return [root = root_of(given, hf_directory)](const fs::path& file) {
        if (const auto end = io::leads_out_of(file, root)) {
            throw Error(
                ErrorCode::corrupt,
                printable(file.string(), 1000) +
                    " leads through a link out of the checkpoint, to " +
                    printable(end->string(), 1000),
                "put the file itself there, or name the model's directory with --hf_config");
        }
        // No other one that is put in its place or on the way to it meanwhile.
        return io::open_within(file, root);
    };
}

}  // namespace shardweld::app
