// The stages in which a catalogue is read, and the serial way through them.

#include <map>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/master_samples.hpp"
#include "formats/shared/module_names.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "catalogue_words.hpp"
#include "closed_world.hpp"
#include "format.hpp"

namespace shardweld::formats {

namespace {

/// One rank sees all files or it cannot go on; with several ranks the survey asks who sees which.
void require_files(const Location& location, const Catalogue& catalogue) {
    std::vector<std::string> missing = collect_list(
        catalogue.files, &File::path,
        [&](const File& file) { return !io::is_file(location.directory / file.path); });
    if (!missing.empty()) {
        throw files_missing(std::to_string(missing.size()) + " of " +
                            std::to_string(catalogue.files.size()) +
                            " shard files are missing in " + location.directory.string() + ": " +
                            name_list(missing));
    }
}

}  // namespace

Resolution leave_nothing(const Location& location, const Catalogue& /*catalogue*/,
                         std::span<const std::uint32_t> files,
                         const std::function<void()>& /*before_file*/) {
    if (!files.empty()) {
        throw Error(ErrorCode::internal, location.format + " leaves no piece to be located");
    }
    return {};
}

Location begun_at(const Format& format, const fs::path& directory, const Listing* listing) {
    Location location;
    location.format = format.name;
    location.directory = directory;
    if (listing != nullptr && listing->has_file("config.json") &&
        !is_run_config(directory / "config.json")) {
        location.hf_directory = directory;
    }
    return location;
}

Catalogue combine(const Location& location, std::vector<Scan> scans) {
    const Format& format = format_of(location);
    const bool has_prefix = !location.prefix.empty();
    // These find dictionaries and numbers of layers in names.
    const bool is_early = format.option == InputOption::prefix;
    if (has_prefix && is_early) {
        auto all = collect_list<Catalogue*>(scans, [](Scan& scan) { return &scan; });
        keep_below(location.prefix, all);
    }
    auto catalogue = format.combine(location, std::move(scans));
    if (has_prefix && !is_early) {
        keep_below(location.prefix, {&catalogue});
    }
    if (has_prefix) {
        catalogue.notes.push_back("using what lies below " + printable(location.prefix));
    }
    remove_wrappers(catalogue);
    catalogue.format = format.name;
    if (catalogue.dialect.empty()) {
        catalogue.dialect = format.dialect;
    }
    append_all(catalogue.notes, location.notes);
    catalogue.warnings.insert(location.warnings.begin(), location.warnings.end());
    account_for_neighbours(location, catalogue);
    return catalogue;
}

std::vector<std::uint32_t> resolve_list(const Catalogue& catalogue) {
    std::set<std::uint32_t> files;
    catalogue::each_tensor(catalogue, [&](const Tensor& tensor) {
        for (const Piece& piece : tensor.pieces) {
            if (!piece.located) {
                files.insert(piece.file);
            }
        }
    });
    for (const MasterSample& sample : catalogue.samples.all) {
        files.insert({sample.master.file, sample.weight.file});
    }
    return {files.begin(), files.end()};
}

void apply_resolutions(Catalogue& catalogue, const std::vector<Resolution>& resolutions) {
    std::vector<std::size_t> positions(resolutions.size(), 0);
    std::map<std::uint32_t, std::size_t> resolution_of;
    for (const std::size_t r : indices(resolutions)) {
        for (const std::size_t i : indices(resolutions[r].files)) {
            const std::uint32_t file = resolutions[r].files[i];
            catalogue.files.at(file).size = resolutions[r].sizes.at(i);
            resolution_of[file] = r;
        }
    }
    catalogue::each_tensor(catalogue, [&](Tensor& tensor) {
        for (Piece& piece : tensor.pieces) {
            if (piece.located) {
                continue;
            }
            const auto at = resolution_of.find(piece.file);
            if (at == resolution_of.end() ||
                positions[at->second] >= resolutions[at->second].pieces.size()) {
                throw Error(ErrorCode::internal, "no rank located a piece of " + tensor.name);
            }
            piece = resolutions[at->second].pieces[positions[at->second]++];
        }
    });
    for (const std::size_t r : indices(resolutions)) {
        if (positions[r] != resolutions[r].pieces.size()) {
            throw Error(ErrorCode::internal,
                        "pieces were located that the catalogue does not have");
        }
    }
    hold_samples(catalogue, resolutions);
    if (!catalogue.optimizer.is_empty()) {
        format_called(catalogue.format).split_flat_states(catalogue);
    }
}

Catalogue read_catalogue(const Location& location) {
    const Format& format = format_of(location);
    std::vector<Scan> scans =
        collect_list(format.scan_list(location),
                     [&](const std::string& file) { return format.scan(location, file); });
    auto catalogue = combine(location, std::move(scans));
    require_files(location, catalogue);
    const auto files = resolve_list(catalogue);
    apply_resolutions(catalogue, {format.resolve(location, catalogue, files, [] {})});
    return catalogue;
}

}  // namespace shardweld::formats
