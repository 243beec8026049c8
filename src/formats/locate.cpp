// From --local_dir down to the directory that holds the shard files.
// Knows which levels there are; each level's rules are in iteration_directories.cpp and
// verl_directories.cpp.

#include <algorithm>
#include <system_error>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/format.hpp"
#include "shardweld/io/kind.hpp"
#include "shardweld/io/paths.hpp"

#include "closed_world.hpp"
#include "directory.hpp"
#include "foreign.hpp"
#include "iteration_directories.hpp"
#include "shared/training_keys.hpp"
#include "verl_directories.hpp"

namespace shardweld::formats {

namespace {

// Root, step, role, model, dist_ckpt and a parent make six; links could go on for ever.
constexpr int kDeepestCheckpoint = 8;

// How far above the shards a role or an iteration can be named.
constexpr int kLevelsAbove = 4;

void require_sensible(const Request& request) {
    const auto known = backends();
    if (request.backend != "auto" &&
        std::find(known.begin(), known.end(), request.backend) == known.end()) {
        throw Error(ErrorCode::usage, "--backend " + printable(request.backend) +
                                          " is not known; this build reads: auto, " +
                                          name_list(known));
    }
    if (!request.role.empty() && request.role != "actor" && request.role != "critic") {
        throw Error(ErrorCode::usage, "--role " + printable(request.role) +
                                          " is not known; expected actor or critic");
    }
    if (request.iteration && *request.iteration < 0) {
        throw Error(ErrorCode::usage, "--iteration must not be negative");
    }
    const io::Kind kind = io::kind_at(request.directory);
    if (kind == io::Kind::none) {
        throw Error(ErrorCode::not_found, request.directory.string() + " does not exist");
    }
    if (kind != io::Kind::directory) {
        throw Error(ErrorCode::usage,
                    request.directory.string() + " is a file; give the checkpoint's directory");
    }
}

std::optional<Location> probe(const fs::path& directory, const std::string& backend) {
    for (const Format* format : all_formats()) {
        if (backend == "auto" ? !format->only_by_name() : format->backend() == backend) {
            if (auto location = format->probe(directory)) {
                return location;
            }
        }
    }
    return std::nullopt;
}

bool looks_like_checkpoint(const Listing& listing) {
    const auto& formats = all_formats();
    return listing.has_file(kTrackerFile) || is_verl_level(listing) ||
           std::any_of(listing.directories.begin(), listing.directories.end(),
                       [](const std::string& name) { return parse_step(name).has_value(); }) ||
           std::any_of(formats.begin(), formats.end(), [&](const Format* format) {
               return !format->only_by_name() && format->is_told_by(listing);
           });
}

// Of several checkpoints those that trainers put beside a model (optimizer_0) are not meant.
void leave_training_state(std::vector<std::string>& names) {
    const auto models = std::stable_partition(
        names.begin(), names.end(), [](const std::string& name) { return !is_training_key(name); });
    if (models != names.begin()) {
        names.erase(models, names.end());
    }
}

// The one directory below that holds a model; Error(usage) when there are several.
std::optional<fs::path> only_checkpoint_below(const fs::path& directory, const Listing& listing) {
    std::vector<std::string> found;
    for (const std::string& name : listing.directories) {
        std::error_code failed;
        fs::directory_iterator readable(directory / name, failed);
        if (failed == std::errc::permission_denied) {
            continue;
        }
        if (looks_like_checkpoint(list_directory(directory / name))) {
            found.push_back(name);
        }
    }
    leave_training_state(found);
    if (found.size() > 1) {
        throw Error(ErrorCode::usage, directory.string() + " holds several checkpoints: " +
                                          name_list(found) + "; give one of them");
    }
    return found.empty() ? std::nullopt : std::optional(directory / found.front());
}

// Directories that a user may take for a sharded checkpoint, each with a word on what it is.
void refuse_others(const fs::path& directory, const Listing& listing) {
    for (const Format* const format : all_formats()) {
        if (format->only_by_name() && format->is_told_by(listing)) {
            format->refuse_unasked(directory);
        }
    }
    if (const auto layout = foreign_layout(listing)) {
        throw Error(ErrorCode::unsupported, directory.string() + " looks like " + *layout +
                                                "; this build reads: " + name_list(backends()));
    }
    refuse_finished(directory);
}

/// What a search for a checkpoint of this backend looks for.
std::string looked_for(const std::string& backend) {
    std::string text = kTrackerFile + std::string(", ") + kStepNames + ", " + kVerlNames;
    for (const Format* const format : all_formats()) {
        if (format->only_by_name() && format->backend() == backend) {
            return std::string(format->looks_for());
        }
        if (!format->only_by_name() && !format->looks_for().empty()) {
            text += ", " + std::string(format->looks_for());
        }
    }
    return text;
}

std::string noun_of(const std::string& backend) {
    for (const Format* const format : all_formats()) {
        if (format->backend() == backend) {
            return std::string(format->noun());
        }
    }
    return "checkpoint";
}

[[noreturn]] void refuse_unknown(const fs::path& directory, const Listing& listing,
                                 const std::string& backend) {
    for (const Format* const format : all_formats()) {
        if (const std::string fault(format->fault_of(listing)); !fault.empty()) {
            throw Error(ErrorCode::not_found, directory.string() + " " + fault);
        }
    }
    std::vector<std::string> found = listing.directories;
    found.insert(found.end(), listing.files.begin(), listing.files.end());
    throw Error(ErrorCode::not_found, "no " + noun_of(backend) + " in " + directory.string() +
                                          ": looked for " + looked_for(backend) + "; found: " +
                                          (found.empty() ? "nothing" : name_list(found)));
}

// One level down.
fs::path descend(const fs::path& directory, const Request& request,
                 std::vector<std::string>& notes) {
    const Listing listing = list_directory(directory);
    if (const auto step = choose_step(directory, listing, request.iteration)) {
        if (!step->note.empty()) {
            notes.push_back(step->note);
        }
        return directory / step->directory;
    }
    if (const auto model = model_directory(directory, listing)) {
        return *model;
    }
    if (const auto role = role_directory(directory, listing, request.role)) {
        return *role;
    }
    refuse_others(directory, listing);
    if (const auto below = only_checkpoint_below(directory, listing)) {
        return *below;
    }
    refuse_unknown(directory, listing, request.backend);
}

// The names of the shards' directory and those above, nearest first.
std::vector<std::string> names_above(fs::path directory) {
    std::vector<std::string> names;
    for (int level = 0; level <= kLevelsAbove; ++level) {
        names.push_back(directory.filename().string());
        directory = directory.parent_path();
    }
    return names;
}

void require_role(const Location& location, const std::string& role) {
    if (role.empty()) {
        return;
    }
    const auto names = names_above(location.directory);
    const auto named = std::find_if(names.begin(), names.end(), [](const std::string& name) {
        return name == "actor" || name == "critic";
    });
    if (named == names.end() || *named != role) {
        throw Error(ErrorCode::usage,
                    "--role " + role + " was given, but " + location.directory.string() +
                        (named == names.end() ? " belongs to no role" : " belongs to " + *named));
    }
}

/// An option that changes nothing for this format is a mistake.
void require_own(const Location& location, InputOption option, const std::string& names) {
    if (!format_of(location).subject_of(option).empty()) {
        return;
    }
    std::string subject = "another format";
    for (const Format* const format : all_formats()) {
        if (!format->subject_of(option).empty()) {
            subject = format->subject_of(option);
            break;
        }
    }
    throw Error(ErrorCode::usage, names + " about " + subject + ", but " +
                                      location.directory.string() + " is none: leave " +
                                      (names.ends_with(" are") ? "them" : "it") + " out");
}

void require_own_options(const Location& location, const Request& request) {
    if (!request.mesh.names.empty() || !request.mesh.shape.empty()) {
        require_own(location, InputOption::mesh, "--mesh_dim_names and --mesh_shape are");
    }
    if (!request.prefix.empty()) {
        require_own(location, InputOption::prefix, "--prefix is");
    }
}

void require_iteration(Location& location, std::optional<Index> wanted) {
    std::optional<Step> step;
    for (const std::string& name : names_above(location.directory)) {
        step = step ? step : parse_step(name);
    }
    const auto found = step ? step->iteration : std::nullopt;
    if (found) {
        location.facts["iteration"] = *found;
    }
    if (wanted && found != wanted) {
        throw Error(ErrorCode::usage,
                    "--iteration " + std::to_string(*wanted) + " was given, but " +
                        location.directory.string() +
                        (found ? " is iteration " + std::to_string(*found)
                               : std::string(" does not say which iteration it is")));
    }
}

}  // namespace

Location locate(const Request& request) {
    require_sensible(request);
    std::vector<std::string> notes;
    fs::path directory = io::without_dots(request.directory);
    auto location = probe(directory, request.backend);
    for (int depth = 0; !location && depth < kDeepestCheckpoint; ++depth) {
        directory = descend(directory, request, notes);
        location = probe(directory, request.backend);
    }
    if (!location) {
        throw Error(ErrorCode::not_found, "no checkpoint within " +
                                              std::to_string(kDeepestCheckpoint) +
                                              " levels below " + request.directory.string());
    }
    location->notes.insert(location->notes.begin(), notes.begin(), notes.end());
    require_own_options(*location, request);
    require_role(*location, request.role);
    require_iteration(*location, request.iteration);
    location->statements = steps_stated(location->directory);
    add_companions(*location, io::without_dots(request.directory));
    location->mesh = request.mesh;
    location->prefix = request.prefix;
    location->check_crc = request.check_crc;
    location->neighbours = look_around(io::without_dots(request.directory), *location);
    return std::move(*location);
}

}  // namespace shardweld::formats
