#include "refusals.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/containers/file_sign.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "recognise.hpp"
#include "verl_directories.hpp"

namespace shardweld::formats {

namespace {

// An error should not take long.
constexpr std::size_t kMostListed = 1000;

/// What another format than the one found or asked for finds in a directory: where it is damaged,
/// nothing. Error(io) where it cannot be told what lies there.
std::optional<Location> probe_for_another(const Format& format, const fs::path& directory,
                                          const Listing& listing) {
    try {
        return format.probe(directory, listing);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::io) {
            throw;
        }
        return std::nullopt;
    }
}

bool shares_files(const Location& one, const Location& other) {
    return std::ranges::find_first_of(one.shard_files, other.shard_files) != one.shard_files.end();
}

/// "a verl FSDP checkpoint (world size 4)".
std::string title_of(const Location& location) {
    const Format& format = format_of(location);
    const std::string detail = format.detail_of(location);
    return "a " + std::string(format.noun) + (detail.empty() ? "" : " (" + detail + ")");
}

/// The location that another format than the one asked for finds in a directory, as far as it can
/// be told. Formats that are read only by name are not tried.
std::optional<Location> otherwise(const fs::path& directory, const Listing& listing,
                                  const std::string& backend) {
    for (const Format* const format : all_formats()) {
        try {
            if (!format->explicit_only && format->backend != backend) {
                if (auto location = format->probe(directory, listing)) {
                    return location;
                }
            }
        } catch (const std::exception&) {
            continue;
        }
    }
    return std::nullopt;
}

/// What a search for a checkpoint of this backend looks for.
std::string looked_for(const std::string& backend) {
    std::string text;
    for (const NameRule& rule : name_rules().names) {
        const std::string names =
            joined(rule.patterns, " ", [](auto name) { return std::string(name); });
        const bool is_asked = !rule.format.empty() && format_called(rule.format).explicit_only;
        if (is_asked && format_called(rule.format).backend == backend) {
            return names;
        }
        text += is_asked ? "" : (text.empty() ? "" : ", ") + names;
    }
    return text;
}

std::string noun_of(const std::string& backend) {
    auto* const format = find_item(all_formats(), backend, &Format::backend);
    return format == nullptr ? "checkpoint" : std::string((*format)->noun);
}

using Listings = std::vector<std::pair<fs::path, Listing>>;

/// Refuses what signs give away, by the first row of all: a model's small files lie above another
/// program's shards.
void refuse_signs(const Listings& all) {
    const std::pair<fs::path, Listing>* found = nullptr;
    const NameRule* first = nullptr;
    for (const auto& one : all) {
        const NameRule* const rule = rule_for(name_rules().refused, one.second);
        if (rule != nullptr && (first == nullptr || rule < first)) {
            first = rule;
            found = &one;
        }
    }
    if (first != nullptr) {
        throw Error(ErrorCode::unsupported,
                    found->first.string() + " is " + std::string(first->what) +
                        ", which this version does not read",
                    std::string(first->more));
    }
}

/// Refuses what a sign in a directory or those in it gives away.
void refuse_signs(const fs::path& directory, const Listing& listing) {
    Listings all = {{directory, listing}};
    for (const std::string& name : listing.directories) {
        all.emplace_back(directory / name, readable_listing(directory / name));
    }
    refuse_signs(all);
}

/// A directory and those below it, nearest first, as far as they can be read and are not too many.
Listings with_those_below(const fs::path& directory, const Listing& listing) {
    Listings all = {{directory, listing}};
    for (std::size_t at = 0; at < all.size() && all.size() < kMostListed; ++at) {
        const fs::path above = all[at].first;
        const std::vector<std::string> names = all[at].second.directories;
        for (std::size_t i = 0; i < names.size() && all.size() < kMostListed; ++i) {
            all.emplace_back(above / names[i], readable_listing(above / names[i]));
        }
    }
    return all;
}

/// What a format knows to be lacking.
void refuse_faults(const fs::path& directory, const Listing& listing) {
    if (const NameRule* const rule = rule_for(name_rules().lacking, listing)) {
        throw Error(ErrorCode::not_found, directory.string() + " " + std::string(rule->what),
                    "copy all files of the save again, hidden ones too, or give another save");
    }
}

/// A finished model.
void refuse_model(const fs::path& directory, const Listing& listing) {
    for (const NameRule& rule : name_rules().seen) {
        if (!rule.format.empty() && format_called(rule.format).explicit_only &&
            fits(rule, listing)) {
            format_called(rule.format).refuse_unasked(directory);
        }
    }
}

/// The directory of a save, in which nothing is.
void refuse_empty(const Listings& all) {
    const auto& [directory, listing] = all.front();
    const bool is_empty = all.size() < kMostListed && std::ranges::all_of(all, [](const auto& one) {
                              return one.second.files.empty();
                          });
    if (is_empty && iteration_of(directory)) {
        throw Error(ErrorCode::not_found,
                    directory.string() + " holds no files" +
                        (listing.directories.empty()
                             ? ""
                             : ", only empty directories: " + name_list(listing.directories)) +
                        ": the save was interrupted or the copy left them out",
                    "copy it again, or take another save");
    }
}

/// Refuses a directory below which nothing was found, by what lies there.
void refuse_by_those_below(const fs::path& directory, const Listing& listing, bool is_automatic) {
    const Listings all = with_those_below(directory, listing);
    for (const auto& [path, names] : all) {
        refuse_faults(path, names);
    }
    for (const auto& [path, names] : all) {
        if (is_automatic && path.parent_path() == directory) {
            refuse_model(path, names);
        }
    }
    refuse_empty(all);
    refuse_signs(all);
}

}  // namespace

std::string paths_text(const fs::path& directory, const std::vector<std::string>& below) {
    return joined(below, ", ", [&](const std::string& path) {
        return printable((directory / path).string(), 1000);
    });
}

namespace {

/// In the Hub's cache of a model (models--ORG--NAME): the snapshot that `main` is, or else the only
/// one; "" where the path is no such cache.
std::string snapshot_in(const fs::path& given) {
    const fs::path cache = given.filename() == "snapshots" ? given.parent_path() : given;
    const Listing snapshots = readable_listing(cache / "snapshots");
    if (snapshots.directories.empty() || !io::is_directory(cache / "blobs")) {
        return "";
    }
    constexpr Bytes kLongestRevision = 4096;
    const fs::path main = cache / "refs" / "main";
    const std::string revision =
        io::is_file(main) ? std::string(trim(io::read_text(main, kLongestRevision))) : "";
    const std::string& name =
        snapshots.has_directory(revision) ? revision : snapshots.directories.front();
    return (cache / "snapshots" / name).string();
}

}  // namespace

void require_sensible(const JobInput& request) {
    const auto known = backends();
    if (request.backend != "auto" && !contains(known, request.backend)) {
        throw Error(ErrorCode::usage, "--backend " + printable(request.backend) + " is not known",
                    "this build reads: auto, " + name_list(known));
    }
    if (!request.role.empty() && request.role != "actor" && request.role != "critic") {
        throw Error(ErrorCode::usage, "--role " + printable(request.role) + " is not known",
                    "give actor or critic");
    }
    if (request.iteration && *request.iteration < 0) {
        throw Error(ErrorCode::usage, "--iteration must not be negative",
                    "give the number of a saved iteration");
    }
    const io::FileKind kind = io::kind_at(request.directory);
    if (kind == io::FileKind::none) {
        throw Error(ErrorCode::not_found, request.directory.string() + " does not exist",
                    missing_hint(request.directory));
    }
    if (kind != io::FileKind::directory) {
        const FileSign* const sign =
            kind == io::FileKind::file ? sign_of(io::InputFile::open(request.directory)) : nullptr;
        throw Error(
            ErrorCode::usage,
            request.directory.string() + " is a file" +
                (sign == nullptr ? "" : ": " + std::string(sign->what)),
            std::string(sign == nullptr ? "give the checkpoint's directory" : sign->remedy));
    }
    if (!snapshot_in(request.directory).empty()) {
        throw Error(ErrorCode::usage,
                    request.directory.string() + " is the Hub's cache of a model, not the model",
                    missing_hint(request.directory));
    }
}

bool is_meant_one(const Location& found, const Listing& listing, bool is_automatic) {
    const Format& own = format_of(found);
    for (const Format* const format : all_formats()) {
        if (own.explicit_only || (!is_automatic && format->name == own.name)) {
            return true;
        }
        const bool may_be = !format->explicit_only && format->name != own.name &&
                            (is_automatic || format->backend != own.backend);
        const auto other =
            may_be ? probe_for_another(*format, found.directory, listing) : std::nullopt;
        if (!other) {
            continue;
        }
        const bool has_same = shares_files(*other, found);
        if (!is_automatic && has_same) {
            return false;
        }
        if (is_automatic && !has_same && other->directory == found.directory &&
            !other->shard_files.empty() && !found.shard_files.empty()) {
            const std::string backend(own.backend);
            throw Error(
                ErrorCode::usage,
                found.directory.string() + " holds " + title_of(found) + " and " + title_of(*other),
                format->backend == backend ? "move one of them to a directory of its own"
                                           : "choose one with --backend " + backend +
                                                 " or --backend " + std::string(format->backend));
        }
    }
    return true;
}

void refuse_others(const fs::path& directory, const Listing& listing, const JobInput& request) {
    if (request.backend != "auto") {
        if (const auto other = otherwise(directory, listing, request.backend)) {
            throw Error(ErrorCode::usage, directory.string() + " is " + title_of(*other),
                        request.wants_model
                            ? "merge it first"
                            : "use --backend " + std::string(format_of(*other).backend) +
                                  ", or leave it out");
        }
    }
    refuse_model(directory, listing);
    refuse_finished(directory);
}

void refuse_unknown(const fs::path& directory, const Listing& listing, const JobInput& request,
                    const std::vector<std::string>& below) {
    refuse_faults(directory, listing);
    refuse_signs(directory, listing);
    if (below.empty()) {
        refuse_by_those_below(directory, listing, request.backend == "auto");
    }
    std::vector<std::string> found = listing.directories;
    append_all(found, listing.files);
    throw Error(ErrorCode::not_found,
                "no " + noun_of(request.backend) + " in " + directory.string() + ", which has " +
                    (found.empty() ? "no files" : name_list(found)),
                below.empty()
                    ? "point --local_dir at the directory that has " + looked_for(request.backend)
                    : "found checkpoints: " + paths_text(directory, below));
}

void refuse_unmerged(const fs::path& directory) {
    std::optional<Location> found;
    try {
        JobInput request;
        request.directory = directory;
        found = locate(request);
    } catch (const std::exception&) {
        return;  // none, or one that others speak of
    }
    throw Error(ErrorCode::not_found,
                directory.string() + " is " + title_of(*found) + ", no finished model",
                "merge it first");
}

std::string missing_hint(const fs::path& path) {
    if (const std::string snapshot = snapshot_in(path); !snapshot.empty()) {
        return "give the snapshot in this cache of the Hub: " + snapshot;
    }
    const std::string text = path.string();
    const std::size_t slash = text.find('/');
    const bool is_name = slash != std::string::npos && slash != 0 && slash + 1 < text.size() &&
                         text.find('/', slash + 1) == std::string::npos && text.front() != '.' &&
                         std::ranges::all_of(text,
                                             [](char c) {
                                                 return c == '/' || c == '-' || c == '_' ||
                                                        c == '.' || std::isalnum(c) != 0;
                                             }) &&
                         io::kind_at(text.substr(0, slash)) == io::FileKind::none &&
                         !parse_step(text.substr(0, slash));
    if (is_name) {
        return "if it is a model on the Hub, download it first: hf download " + text +
               " --local-dir " + text.substr(slash + 1);
    }
    fs::path above = fs::absolute(path.empty() ? "." : path);
    while (above.has_relative_path() && io::kind_at(above) == io::FileKind::none) {
        above = above.parent_path();
    }
    const Listing there = readable_listing(above);
    std::vector<std::string> names = there.directories;
    append_all(names, there.files);
    return "check the path" + (names.empty() || !above.has_relative_path()
                                   ? ""
                                   : ": " + printable(above.string()) + " has " + name_list(names));
}

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
bool is_whole(const JobInput& request) noexcept {
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

/// The place that `given` has in an older save of `save`'s run; nullopt where none is whole.
std::optional<fs::path> whole_beside(const fs::path& save, const fs::path& given,
                                     JobInput request) {
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

void add_older_save(const JobInput& request, const fs::path& directory, Error& error) {
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
