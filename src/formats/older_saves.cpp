#include "older_saves.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "recognise.hpp"

namespace shardweld::formats {

namespace {

// How far above what cannot be read its iteration is looked for.
constexpr int kLevelsOfSave = 4;
// An error should not take long: so many saves are tried, and none with more files to open.
constexpr std::size_t kMostTried = 3;
constexpr std::size_t kMostOpened = 512;

// NeMo Automodel, components/checkpoint/utils.py: in the directory while it is written.
constexpr const char* kMarkInside = ".incomplete";
// NeMo 2, lightning/pytorch/callbacks/model_checkpoint.py: beside it.
constexpr const char* kMarkBeside = "-unfinished";
constexpr std::string_view kLightningSuffix = ".ckpt";

/// The saves that a directory is or is part of, nearest first: global_step20 in checkpoint-20.
std::vector<fs::path> saves_around(fs::path directory) {
    std::vector<fs::path> saves;
    for (int level = 0; level <= kLevelsOfSave; ++level, directory = directory.parent_path()) {
        const auto step = parse_step(directory.filename().string());
        if (step && step->iteration) {
            saves.push_back(directory);
        }
    }
    return saves;
}

std::vector<IterationDirectory> older_than(const fs::path& save) {
    const auto own = parse_step(save.filename().string());
    std::vector<IterationDirectory> older;
    for (const std::string& name : readable_listing(save.parent_path()).directories) {
        auto step = parse_step(name);
        if (step && step->iteration && step->iteration < own->iteration) {
            older.push_back(std::move(*step));
        }
    }
    std::ranges::stable_sort(older, std::ranges::greater(), &IterationDirectory::iteration);
    older.resize(std::min(older.size(), kMostTried));
    return older;
}

/// Whether all that a merge would ask of its files is there.
bool is_whole(const InputRequest& request) noexcept {
    try {
        const Location location = locate_checkpoint(request);
        if (format_of(location).scan_list(location).size() > kMostOpened) {
            return false;
        }
        (void)read_catalogue(location);
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

/// The same place in an older save of the run that `save` is of; nullopt where none is whole.
std::optional<fs::path> whole_beside(const fs::path& save, const fs::path& given,
                                     InputRequest request) {
    request.iteration.reset();
    for (const IterationDirectory& step : older_than(save)) {
        request.directory = save.parent_path() / step.directory;
        if (io::is_within(given, save) && given != save) {
            request.directory /= given.lexically_relative(save);
        }
        if (is_whole(request)) {
            return request.directory;
        }
    }
    return std::nullopt;
}

void require_unmarked(const fs::path& save) {
    std::string beside = save.string();
    if (beside.ends_with(kLightningSuffix)) {
        beside.resize(beside.size() - kLightningSuffix.size());
    }
    for (const fs::path& mark : {save / kMarkInside, fs::path(beside + kMarkBeside)}) {
        if (io::is_file(mark)) {
            throw Error(ErrorCode::not_found,
                        "the save in " + save.string() + " was interrupted: its trainer removes " +
                            mark.filename().string() + " when one has ended",
                        "take another save; if this one is known to be whole, remove that file");
        }
    }
}

}  // namespace

void require_finished(const fs::path& directory) {
    std::ranges::for_each(saves_around(directory), require_unmarked);
}

void add_older_save(const InputRequest& request, const fs::path& directory, Error& error) {
    if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::corrupt &&
        error.code() != ErrorCode::mismatch) {
        return;
    }
    const fs::path given = io::without_dots(request.directory);
    for (const fs::path& save : saves_around(io::without_dots(directory))) {
        if (const auto whole = whole_beside(save, given, request)) {
            const bool is_chosen = given != save && io::is_within(save, given);
            const auto iteration = iteration_of(*whole);
            error.set_hint(
                (error.hint().empty() ? "" : error.hint() + "; or ") + "take " +
                printable(whole->string(), 1000) + ", an older save that is whole" +
                (is_chosen && iteration ? ": --iteration " + std::to_string(*iteration) : ""));
            return;
        }
    }
}

}  // namespace shardweld::formats
