#include "iteration_directories.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/names/name_rules.hpp"
#include "core/names/names.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"
#include "optimizer_claims.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kRelease = "release";
// NeMo Automodel's, a link or a file.
constexpr std::string_view kLatestLink = "LATEST";
constexpr Bytes kLargestTracker = 4096;
// transformers' Trainer keeps its step in it, beside a log of all its steps.
constexpr const char* kTrainerState = "trainer_state.json";
constexpr Bytes kLargestTrainerState = Bytes{256} << 20U;

/// The files of these rows that are in a directory.
std::vector<std::string_view> files_of(const std::vector<NameRule>& rules, const Listing& listing) {
    std::vector<std::string_view> files;
    for (const NameRule& rule : rules) {
        std::ranges::copy_if(rule.patterns, std::back_inserter(files),
                             [&](std::string_view file) { return listing.has_file(file); });
    }
    return files;
}

std::vector<IterationDirectory> steps_in(const Listing& listing) {
    std::vector<IterationDirectory> steps;
    for (const std::string& name : listing.directories) {
        if (auto step = parse_step(name)) {
            steps.push_back(std::move(*step));
        }
    }
    return steps;
}

// What to do where the step that is wanted is not there: `absent` where no other is either.
std::string choice_among(const std::vector<IterationDirectory>& steps, const std::string& absent) {
    std::vector<std::string> names = collect_list(steps, &IterationDirectory::directory);
    return names.empty() ? absent : "choose one with --iteration: " + name_list(names);
}

// The name that Megatron gives, for messages.
std::string megatron_name(Index iteration) {
    return name_with(name_rules().steps.front().patterns.front(), {{"step", iteration}});
}

// What to copy where a tracker is there and no iteration.
std::string lost_directories(const std::optional<Index>& iteration) {
    const std::string name = iteration ? megatron_name(*iteration) : "iter_*";
    return "copy the directory of the iteration too: " + name +
           ", which has .metadata and *.distcp or mp_rank_*/model_optim_rng.pt; verl's is " +
           "global_step_" + (iteration ? std::to_string(*iteration) : "*");
}

// Where iter_10 lies beside iter_0000010, nothing tells which one is meant.
std::optional<IterationDirectory> find_step(const fs::path& directory,
                                            const std::vector<IterationDirectory>& steps,
                                            std::optional<Index> iteration) {
    std::optional<IterationDirectory> found;
    for (const IterationDirectory& step : steps) {
        if (step.iteration != iteration) {
            continue;
        }
        if (found) {
            throw Error(ErrorCode::mismatch,
                        printable(found->directory) + " and " + printable(step.directory) + " in " +
                            directory.string() + " have the same number",
                        "name the right one with --local_dir");
        }
        found = step;
    }
    return found;
}

// The word in a file; "" where it is too long or gone, which is as good as garbled: the caller says
// what it does instead.
std::string word_in(const fs::path& path) {
    try {
        return std::string(trim(io::read_text(path, kLargestTracker)));
    } catch (const Error& error) {
        if (error.code() == ErrorCode::io) {
            throw;
        }
        return "";
    }
}

// What the tracker file says; nullopt when it is neither digits nor `release`.
std::optional<IterationDirectory> read_tracker(const fs::path& path) {
    const std::string word = word_in(path);
    if (word == kRelease) {
        return IterationDirectory{std::nullopt, kRelease};
    }
    if (const auto iteration = parse_index(word)) {
        return IterationDirectory{*iteration, megatron_name(*iteration)};
    }
    return std::nullopt;
}

// The directory itself, or above what verl's layouts put between it and the step.
fs::path own_step(fs::path directory) {
    for (const std::string_view part : {"dist_ckpt", "model"}) {
        directory = directory.filename() == part ? directory.parent_path() : directory;
    }
    const fs::path name = directory.filename();
    return name == "actor" || name == "critic" ? directory.parent_path() : directory;
}

StepChoice asked_step(const fs::path& directory, const std::vector<IterationDirectory>& steps,
                      Index wanted) {
    if (const auto step = find_step(directory, steps, wanted)) {
        return {step->directory, ""};
    }
    throw Error(ErrorCode::not_found,
                "--iteration " + std::to_string(wanted) + " is not in " + directory.string(),
                choice_among(steps, lost_directories(wanted)));
}

// The tracker is written when a save has ended.
std::string note_on_later(const std::vector<IterationDirectory>& steps, Index tracked) {
    const auto last = std::ranges::max_element(steps, {}, &IterationDirectory::iteration);
    return last->iteration.value_or(0) <= tracked
               ? ""
               : std::string(kTrackerFile) + " names iteration " + std::to_string(tracked) +
                     ", not the later " + printable(last->directory) +
                     ": that save was interrupted, or the run began again from an earlier one";
}

StepChoice tracked_step(const fs::path& directory, const std::vector<IterationDirectory>& steps,
                        const IterationDirectory& tracked) {
    if (const auto step = find_step(directory, steps, tracked.iteration)) {
        return {step->directory, tracked.iteration ? note_on_later(steps, *tracked.iteration) : ""};
    }
    throw Error(ErrorCode::not_found,
                std::string(kTrackerFile) + " in " + directory.string() + " names " +
                    (tracked.iteration ? "iteration " + std::to_string(*tracked.iteration)
                                       : std::string(kRelease)) +
                    ", which is not there",
                choice_among(steps, tracked.iteration ? lost_directories(tracked.iteration)
                                                      : "copy release/ too"));
}

// Where no trainer writes a tracker, the highest number is the last save.
std::optional<StepChoice> newest_step(const fs::path& directory,
                                      const std::vector<IterationDirectory>& steps) {
    if (steps.empty() || std::ranges::any_of(steps, &IterationDirectory::has_tracker)) {
        return std::nullopt;
    }
    const auto newest = std::ranges::max_element(steps, {}, &IterationDirectory::iteration);
    const auto step = find_step(directory, steps, newest->iteration);
    return StepChoice{step->directory, steps.size() == 1
                                           ? ""
                                           : "took " + printable(step->directory) +
                                                 ", the newest of " + std::to_string(steps.size()) +
                                                 " checkpoints in " + directory.string() +
                                                 ": --iteration N takes another"};
}

// What a tag file holds: the name of a directory beside it.
fs::path read_tag(const fs::path& file, const std::string& hint) {
    const std::string text = io::read_text(file, kLargestTracker);
    const std::string_view tag = trim(text);
    if (tag.empty()) {
        throw Error(ErrorCode::corrupt, file.string() + " names nothing: it is empty", hint);
    }
    const bool has_nul = has_part(tag, '\0');
    if (has_nul || !stays_below(tag)) {
        throw Error(ErrorCode::corrupt,
                    file.string() + " names \"" + printable(tag, 80) + "\", which " +
                        (has_nul ? "holds a NUL byte: it is damaged" : "leaves the directory"),
                    hint);
    }
    if (!io::is_directory(file.parent_path() / tag)) {
        throw Error(ErrorCode::not_found,
                    file.string() + " names " + printable(tag, 80) + ", which is not there",
                    hint.empty() ? "copy that directory too" : hint);
    }
    return fs::path(tag);
}

// The save that a tag file or a link names.
std::optional<StepChoice> tagged_step(const fs::path& directory, const Listing& listing,
                                      const std::vector<IterationDirectory>& steps) {
    if (listing.has_directory(kLatestLink)) {
        std::error_code failed;
        const std::string end = fs::read_symlink(directory / kLatestLink, failed).filename();
        return StepChoice{!failed && listing.has_directory(end) ? end : std::string(kLatestLink),
                          ""};
    }
    const auto files = files_of(name_rules().last_saves, listing);
    if (files.empty() || listing.has_file(kTrackerFile)) {
        return std::nullopt;
    }
    return StepChoice{read_tag(directory / files.front(), choice_among(steps, "")), ""};
}

}  // namespace

std::optional<IterationDirectory> parse_step(std::string_view directory) {
    const auto found = match_rule(name_rules().steps, directory);
    if (!found) {
        return std::nullopt;
    }
    const bool has_number = !found->parts.empty();
    return IterationDirectory{
        has_number ? std::optional(found->parts.number("step")) : std::nullopt,
        std::string(directory), found->rule->what == "tracked"};
}

std::vector<LastSave> last_saves(const fs::path& directory, const Listing& listing) {
    std::vector<LastSave> saves;
    for (const std::string_view file : files_of(name_rules().last_saves, listing)) {
        const auto step = file == kTrackerFile ? read_tracker(directory / file)
                                               : parse_step(word_in(directory / file));
        saves.push_back({std::string(file), step ? step->iteration : std::nullopt});
    }
    return saves;
}

bool has_tag_file(const fs::path& path) {
    return std::ranges::any_of(name_rules().last_saves, [&](const NameRule& rule) {
        return rule.what == "name" &&
               std::ranges::any_of(rule.patterns,
                                   [&](std::string_view file) { return io::is_file(path / file); });
    });
}

std::optional<StepChoice> choose_step(const fs::path& directory, const Listing& listing,
                                      std::optional<Index> wanted) {
    const auto steps = steps_in(listing);
    const bool is_tracked = listing.has_file(kTrackerFile);
    if (steps.empty() && files_of(name_rules().last_saves, listing).empty()) {
        return std::nullopt;
    }
    if (wanted) {
        return asked_step(directory, steps, *wanted);
    }
    if (auto tagged = tagged_step(directory, listing, steps)) {
        return tagged;
    }
    if (is_tracked) {
        if (const auto tracked = read_tracker(directory / kTrackerFile)) {
            return tracked_step(directory, steps, *tracked);
        }
    }
    if (auto newest = is_tracked ? std::nullopt : newest_step(directory, steps)) {
        return newest;
    }
    const std::string why =
        std::string(kTrackerFile) + (is_tracked ? " is not a number or `release`" : " is missing");
    if (steps.size() == 1) {
        return StepChoice{steps.front().directory, why + ": using the only iteration, " +
                                                       printable(steps.front().directory)};
    }
    throw Error(
        steps.empty() ? ErrorCode::not_found : ErrorCode::usage,
        directory.string() + ": " + why + (steps.empty() ? ", and no iteration is there" : ""),
        choice_among(steps, lost_directories(std::nullopt)));
}

fs::path named_directory(const fs::path& given) {
    const std::string name = given.filename();
    const auto last = match_rule(name_rules().last_saves, name);
    if ((!last && !match_rule(name_rules().best_saves, name)) || !io::is_file(given)) {
        return given;
    }
    const fs::path directory = given.has_parent_path() ? given.parent_path() : ".";
    return name == kTrackerFile ? directory : directory / read_tag(given, "");
}

std::optional<Index> iteration_of(const fs::path& directory) {
    // DeepSpeed's converter puts a universal save beside the one that it is of.
    constexpr std::string_view kUniversal = "_universal";
    std::string name = own_step(directory).filename();
    if (name.ends_with(kUniversal)) {
        name.resize(name.size() - kUniversal.size());
    }
    const auto step = parse_step(name);
    return step ? step->iteration : std::nullopt;
}

namespace {

/// The step that transformers' Trainer has kept; nullopt where it has not. Error(corrupt) for one
/// that is no whole number, and for a file that is no JSON object.
std::optional<Index> trainer_step(const fs::path& file) {
    using nlohmann::json;
    // Losses may be NaN.
    const std::string text = without_nonfinite(io::read_text(file, kLargestTrainerState));
    const json root = parse_json<json>(
        text, nullptr, [](int depth, json::parse_event_t, const json&) { return depth <= 1; });
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, file.string() + " is not a JSON object",
                    "copy it again, remove it, or " + std::string(kWeightsOnly));
    }
    const auto step = root.find("global_step");
    StepClaims claims;
    if (step != root.end() && !step->is_null()) {
        claims.add(step->dump(), kTrainerState);
    }
    const auto whole = claims.step();
    return whole ? std::optional(static_cast<Index>(*whole)) : std::nullopt;
}

}  // namespace

std::vector<FileAssertion> steps_stated(const fs::path& directory, bool has_states) {
    std::vector<FileAssertion> statements;
    const auto add = [&](const fs::path& file, const char* source, std::optional<Index> step,
                         const char* key = "iteration") {
        if (step) {
            statements.push_back(
                {file.string(), source, {}, {{key, std::to_string(*step)}}, false});
        }
    };
    add(own_step(directory).filename(), "the directory's name", iteration_of(directory));
    if (io::is_file(directory / kTrackerFile)) {
        const auto tracked = read_tracker(directory / kTrackerFile);
        add(kTrackerFile, "the tracker", tracked ? tracked->iteration : std::nullopt);
    }
    if (has_states && io::is_file(directory / kTrainerState)) {
        add(kTrainerState, kTrainerState, trainer_step(directory / kTrainerState), kTrainerStep);
    }
    return statements;
}

}  // namespace shardweld::formats
