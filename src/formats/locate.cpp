// From --local_dir down to the directory that holds the shard files. Each level's rules are in
// iteration_directories.cpp and verl_directories.cpp.

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "closed_world.hpp"
#include "format.hpp"
#include "recognise.hpp"
#include "refusals.hpp"
#include "verl_directories.hpp"

namespace shardweld::formats {

namespace {

// Root, step, role, model, dist_ckpt and a parent make six; links could go on for ever.
constexpr int kDeepestCheckpoint = 8;

// How far below a user may have meant, and how much is looked at for that.
constexpr int kLevelsBelow = 4;
constexpr std::size_t kMostLooked = 1000;
constexpr std::size_t kMostCandidates = 3;

// How far above the shards a role or an iteration can be named.
constexpr int kLevelsAbove = 4;

bool is_meant(const Format& format, const std::string& backend) {
    return backend == "auto" ? !format.explicit_only : format.backend == backend;
}

std::optional<Location> probe(const fs::path& directory, const std::string& backend) {
    Listing listing = try_list_directory(directory);
    std::optional<Location> found;
    for (const Format* format : all_formats()) {
        if (!found && is_meant(*format, backend)) {
            found = format->probe(directory, listing);
        }
    }
    if (found && found->directory != directory) {
        listing = try_list_directory(found->directory);
    }
    return found && is_meant_one(*found, listing, backend == "auto") ? std::move(found)
                                                                     : std::nullopt;
}

bool looks_like_checkpoint(const Listing& listing, const std::string& backend) {
    const NameRules& rules = name_rules();
    const auto is_seen = [&](const NameRule& rule) {
        return rule.more != "apart" &&
               (rule.format.empty() || is_meant(format_called(rule.format), backend)) &&
               fits(rule, listing);
    };
    return rule_for(rules.last_saves, listing) != nullptr ||
           std::ranges::any_of(rules.seen, is_seen) || std::ranges::any_of(rules.shards, is_seen) ||
           std::ranges::any_of(listing.directories, [](const std::string& name) {
               return parse_step(name).has_value();
           });
}

// Among several checkpoints, those that trainers put beside a model (optimizer_0) are not meant.
void leave_training_state(std::vector<std::string>& names) {
    const auto models = std::stable_partition(
        names.begin(), names.end(), [](const std::string& name) { return !is_training_key(name); });
    if (models != names.begin()) {
        names.erase(models, names.end());
    }
}

// A link to one of them is no other one (Composer's latest-rank0).
void leave_links_within(const fs::path& directory, const Listing& listing,
                        std::vector<std::string>& names) {
    const std::vector<std::string> all = names;
    std::erase_if(names, [&](const std::string& name) {
        std::error_code failed;
        const fs::path end = !contains(listing.links, name)
                                 ? fs::path()
                                 : fs::read_symlink(directory / name, failed);
        return contains(all, end.string());
    });
}

// The one directory below that holds a model; Error(usage) when there are several.
std::optional<fs::path> only_checkpoint_below(const fs::path& directory, const Listing& listing,
                                              const std::string& backend) {
    auto found = filter_list(listing.directories, [&](const std::string& name) {
        return looks_like_checkpoint(readable_listing(directory / name), backend);
    });
    leave_training_state(found);
    leave_links_within(directory, listing, found);
    if (found.size() > 1) {
        throw Error(ErrorCode::usage,
                    directory.string() + " holds several checkpoints: " + name_list(found),
                    "give one of them");
    }
    return found.empty() ? std::nullopt : std::optional(directory / found.front());
}

// What looks like a checkpoint further down, nearest first and relative to `directory`.
std::vector<std::string> checkpoints_below(const fs::path& directory, const Listing& listing,
                                           const std::string& backend) {
    std::vector<std::string> found;
    std::vector<fs::path> level(listing.directories.begin(), listing.directories.end());
    std::size_t n_listed = 0;
    for (int depth = 1; depth <= kLevelsBelow && !level.empty(); ++depth) {
        std::vector<fs::path> next;
        for (const fs::path& path : level) {
            if (found.size() == kMostCandidates || n_listed++ == kMostLooked) {
                return found;
            }
            const Listing below = readable_listing(directory / path);
            if (looks_like_checkpoint(below, backend)) {
                found.push_back(path.string());
                continue;
            }
            std::ranges::transform(below.directories, std::back_inserter(next),
                                   [&](const std::string& name) { return path / name; });
        }
        level = std::move(next);
    }
    return found;
}

// What has another name than the step, the role or the directory that is missed.
void add_renamed(const fs::path& directory, const Listing& listing, const std::string& backend,
                 Error& error) {
    std::vector<std::string> below = checkpoints_below(directory, listing, backend);
    std::erase_if(below, [](const std::string& path) {
        return parse_step(fs::path(path).begin()->string()).has_value();
    });
    if (error.code() == ErrorCode::not_found && !below.empty()) {
        error.set_hint((error.hint().empty() ? "" : error.hint() + "; or ") +
                       "if it was renamed, give it: " + paths_text(directory, below));
    }
}

// The level below that has a known name.
std::optional<fs::path> named_below(const fs::path& directory, const Listing& listing,
                                    const JobInput& request, std::vector<std::string>& notes) {
    if (const auto step = choose_step(directory, listing, request.iteration)) {
        if (!step->note.empty()) {
            notes.push_back(step->note);
        }
        return directory / step->directory;
    }
    if (auto model = model_directory(directory, listing)) {
        return model;
    }
    return role_directory(directory, listing, request.role);
}

// One level down.
fs::path step_below(const fs::path& directory, const JobInput& request,
                    std::vector<std::string>& notes) {
    const Listing listing = list_directory(directory);
    try {
        if (const auto named = named_below(directory, listing, request, notes)) {
            return *named;
        }
    } catch (Error& error) {
        add_renamed(directory, listing, request.backend, error);
        throw;
    }
    refuse_others(directory, listing, request);
    if (const auto below = only_checkpoint_below(directory, listing, request.backend)) {
        return *below;
    }
    refuse_unknown(directory, listing, request,
                   checkpoints_below(directory, listing, request.backend));
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
    auto* const named = find_where(
        names, [](const std::string& name) { return name == "actor" || name == "critic"; });
    if (named == nullptr || *named != role) {
        throw Error(ErrorCode::usage,
                    "--role " + role + " was given, but " + location.directory.string() +
                        (named == nullptr ? " belongs to no role" : " belongs to " + *named),
                    "leave --role out, or give the directory above");
    }
}

/// An option that changes nothing for this format is a mistake.
void require_own(const Location& location, InputOption option, const std::string& names) {
    if (format_of(location).option == option) {
        return;
    }
    const auto taker = std::ranges::find(all_formats(), option, &Format::option);
    throw Error(ErrorCode::usage,
                names + " about " + std::string((*taker)->subject) + ", but " +
                    location.directory.string() + " is none",
                std::string("leave ") + (names.ends_with(" are") ? "them" : "it") + " out");
}

void require_own_options(const Location& location, const JobInput& request) {
    if (!request.mesh.names.empty() || !request.mesh.shape.empty()) {
        require_own(location, InputOption::mesh, "--mesh_dim_names and --mesh_shape are");
    }
    if (request.weights != WeightsFrom::automatic) {
        require_own(location, InputOption::weights, "--weights is");
    }
}

void require_iteration(Location& location, std::optional<Index> wanted) {
    std::optional<IterationDirectory> step;
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
                               : std::string(" does not say which iteration it is")),
                    "leave --iteration out, or give the directory above");
    }
}

// `at`: where the way has led so far.
Location find_along(const JobInput& request, fs::path& at) {
    require_sensible(request);
    std::vector<std::string> notes;
    at = io::without_dots(request.directory);
    auto location = probe(at, request.backend);
    for (int depth = 0; !location && depth < kDeepestCheckpoint; ++depth) {
        at = step_below(at, request, notes);
        location = probe(at, request.backend);
    }
    if (!location) {
        throw Error(ErrorCode::not_found,
                    "no checkpoint within " + std::to_string(kDeepestCheckpoint) +
                        " levels below " + request.directory.string(),
                    "point --local_dir at the directory that has the shards");
    }
    require_finished(location->directory);
    location->notes.insert(location->notes.begin(), notes.begin(), notes.end());
    require_own_options(*location, request);
    require_role(*location, request.role);
    require_iteration(*location, request.iteration);
    location->statements = steps_stated(location->directory, request.state != TakenState::weights);
    add_companions(*location, io::without_dots(request.directory));
    location->mesh = request.mesh;
    location->prefix = request.prefix;
    location->weights = request.weights;
    location->state = request.state;
    location->check_crc = request.check_crc;
    location->neighbours = look_around(io::without_dots(request.directory), *location);
    return std::move(*location);
}

/// The adapter that PEFT saved, where nothing else is found; nullopt where a model lies beside it.
std::optional<Location> locate_adapter(JobInput request, ErrorCode fault) {
    const bool is_unknown = fault == ErrorCode::not_found || fault == ErrorCode::unsupported;
    if (request.backend != "auto" || !is_unknown ||
        is_hf_model(try_list_directory(io::without_dots(request.directory)))) {
        return std::nullopt;
    }
    request.backend = "peft";
    fs::path at;
    try {
        return find_along(request, at);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::io) {
            throw;
        }
        return std::nullopt;
    }
}

}  // namespace

Location locate_checkpoint(const JobInput& request) {
    fs::path at;
    return find_along(request, at);
}

Location locate(const JobInput& request) {
    JobInput model = request;
    model.backend = "hf";
    fs::path at;
    try {
        return find_along(request, at);
    } catch (Error& error) {
        const bool may_be_model = request.wants_model && request.backend == "auto" &&
                                  error.code() == ErrorCode::not_found;
        if (!may_be_model || !probe(io::without_dots(request.directory), model.backend)) {
            if (auto adapter = locate_adapter(request, error.code())) {
                return std::move(*adapter);
            }
            if (!at.empty()) {
                add_older_save(request, at, error);
            }
            throw;
        }
    }
    return locate_checkpoint(model);
}

}  // namespace shardweld::formats
