#include "iteration_directories.hpp"

#include <algorithm>
#include <array>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kRelease = "release";
constexpr Bytes kLargestTracker = 4096;

std::vector<Step> steps_in(const Listing& listing) {
    std::vector<Step> steps;
    for (const std::string& name : listing.directories) {
        if (auto step = parse_step(name)) {
            steps.push_back(std::move(*step));
        }
    }
    return steps;
}

std::string names_of(const std::vector<Step>& steps) {
    std::vector<std::string> names;
    names.reserve(steps.size());
    for (const Step& step : steps) {
        names.push_back(step.directory);
    }
    return names.empty() ? "none" : name_list(names);
}

// The name that Megatron gives, for messages.
std::string megatron_name(Index iteration) {
    const std::string digits = std::to_string(iteration);
    return "iter_" + std::string(7 - std::min<std::size_t>(digits.size(), 7), '0') + digits;
}

// Of iter_10 beside iter_0000010 nothing tells which one is meant.
std::optional<Step> find_step(const fs::path& directory, const std::vector<Step>& steps,
                              std::optional<Index> iteration) {
    std::optional<Step> found;
    for (const Step& step : steps) {
        if (step.iteration != iteration) {
            continue;
        }
        if (found) {
            throw Error(ErrorCode::mismatch,
                        printable(found->directory) + " and " + printable(step.directory) + " in " +
                            directory.string() +
                            " bear the same number: give the one that is meant as --local_dir");
        }
        found = step;
    }
    return found;
}

// What the tracker file says; nullopt when it is neither digits nor `release`.
std::optional<Step> read_tracker(const fs::path& path) {
    std::string text;
    try {
        text = io::read_text(path, kLargestTracker);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::io) {
            throw;
        }
        return std::nullopt;  // as good as garbled: the caller says what it does instead
    }
    const auto word = trim(text);
    if (word == kRelease) {
        return Step{std::nullopt, kRelease};
    }
    if (const auto iteration = parse_index(word)) {
        return Step{*iteration, megatron_name(*iteration)};
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

Choice asked_step(const fs::path& directory, const std::vector<Step>& steps, Index wanted) {
    if (const auto step = find_step(directory, steps, wanted)) {
        return {step->directory, ""};
    }
    throw Error(ErrorCode::not_found, "--iteration " + std::to_string(wanted) + " is not in " +
                                          directory.string() + "; found: " + names_of(steps));
}

Choice tracked_step(const fs::path& directory, const std::vector<Step>& steps,
                    const Step& tracked) {
    if (const auto step = find_step(directory, steps, tracked.iteration)) {
        return {step->directory, ""};
    }
    throw Error(ErrorCode::not_found,
                std::string(kTrackerFile) + " in " + directory.string() + " names " +
                    (tracked.iteration ? "iteration " + std::to_string(*tracked.iteration)
                                       : std::string(kRelease)) +
                    ", which is not there; found: " + names_of(steps) +
                    "; choose one with --iteration");
}

}  // namespace

std::optional<Step> parse_step(std::string_view directory) {
    if (directory == kRelease) {
        return Step{std::nullopt, kRelease};
    }
    for (const std::string_view prefix :
         {"iter_", "global_step_", "global_steps_", "checkpoint-", "step-"}) {
        if (directory.starts_with(prefix)) {
            if (const auto iteration = parse_index(directory.substr(prefix.size()))) {
                return Step{*iteration, std::string(directory)};
            }
        }
    }
    return std::nullopt;
}

std::optional<Choice> choose_step(const fs::path& directory, const Listing& listing,
                                  std::optional<Index> wanted) {
    const auto steps = steps_in(listing);
    const bool has_tracker = listing.has_file(kTrackerFile);
    if (steps.empty() && !has_tracker) {
        return std::nullopt;
    }
    if (wanted) {
        return asked_step(directory, steps, *wanted);
    }
    if (has_tracker) {
        if (const auto tracked = read_tracker(directory / kTrackerFile)) {
            return tracked_step(directory, steps, *tracked);
        }
    }
    const std::string why =
        std::string(kTrackerFile) + (has_tracker ? " is not a number or `release`" : " is missing");
    if (steps.size() == 1) {
        return Choice{steps.front().directory, why + ": took the only iteration there is, " +
                                                   printable(steps.front().directory)};
    }
    throw Error(steps.empty() ? ErrorCode::not_found : ErrorCode::usage,
                directory.string() + ": " + why + "; found: " + names_of(steps) +
                    (steps.empty() ? "" : "; choose one with --iteration"));
}

std::optional<Index> iteration_of(const fs::path& directory) {
    const auto step = parse_step(own_step(directory).filename().string());
    return step ? step->iteration : std::nullopt;
}

std::vector<catalogue::Statement> steps_stated(const fs::path& directory) {
    std::vector<catalogue::Statement> statements;
    const auto add = [&](const fs::path& file, const char* source, std::optional<Index> iteration) {
        if (iteration) {
            statements.push_back(
                {file.string(), source, {}, {{"iteration", std::to_string(*iteration)}}, false});
        }
    };
    add(own_step(directory).filename(), "the directory's name", iteration_of(directory));
    if (io::is_file(directory / kTrackerFile)) {
        const auto tracked = read_tracker(directory / kTrackerFile);
        add(kTrackerFile, "the tracker", tracked ? tracked->iteration : std::nullopt);
    }
    return statements;
}

}  // namespace shardweld::formats
