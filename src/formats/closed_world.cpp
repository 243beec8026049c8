#include "closed_world.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "catalogue_words.hpp"

namespace shardweld::formats {

namespace {

constexpr int kDeepest = 4;
constexpr std::size_t kMostEntries = 1U << 20U;
constexpr std::string_view kAbove = "../";

std::string_view name_of(std::string_view path) {
    path = path.substr(0, path.find_last_not_of('/') + 1);
    return path.substr(path.rfind('/') + 1);
}

/// What becomes of one neighbour.
struct NeighbourVerdict {
    std::string pattern;
    std::string reason;
    bool may_hold_weights = false;
    bool is_whole = false;        ///< a directory that need not be looked into
    std::string_view holds = "";  ///< "copy", "weights": as path_rules.txt says
};

// By names that mean something; the format's own go before those of all.
std::optional<NeighbourVerdict> known_verdict(const Location& location, std::string_view path) {
    const auto& rules = name_rules().left_aside;
    auto known = match_rule(rules, path, location.format);
    while (path.starts_with(kAbove)) {
        path.remove_prefix(kAbove.size());
    }
    known = known ? std::move(known) : match_rule(rules, path, "");
    if (known) {
        return NeighbourVerdict{std::string(known->pattern), std::string(known->rule->what),
                                known->rule->more == "doubt", known->pattern.ends_with('/'),
                                known->rule->more};
    }
    const std::string_view name = name_of(path);
    const std::string_view stem = name.substr(0, name.find('.'));
    // Modules are called as some of these are, and no trainer keeps its state in safetensors.
    const bool is_state =
        is_training_only(stem) || (is_training_key(stem) && !name.ends_with(".safetensors"));
    return is_state ? std::optional(NeighbourVerdict{printable(name), kTrainingState, false,
                                                     path.ends_with('/')})
                    : std::nullopt;
}

std::vector<fs::directory_entry> try_entries_of(const fs::path& directory, bool& is_readable) {
    try {
        return io::entries_of(directory);
    } catch (const Error&) {
        is_readable = false;
        return {};
    }
}

/// Lists what there is, level by level.
class NeighbourSearch {
  public:
    explicit NeighbourSearch(const Location& location) : location_(location) {
        const auto scanned = format_of(location).scan_list(location);
        scanned_.insert(scanned.begin(), scanned.end());
        shards_.insert(location.shard_files.begin(), location.shard_files.end());
    }

    void below(const fs::path& directory, const std::string& prefix, int depth) {
        bool is_readable = true;
        for (const fs::directory_entry& entry : try_entries_of(directory, is_readable)) {
            add(entry, prefix + entry.path().filename().string(), depth);
        }
        if (!is_readable) {
            found_.push_back({prefix, 0});
        }
    }

    /// On the way from `given` to the location: what is beside that way.
    void above(const fs::path& given) {
        std::string prefix(kAbove);
        for (fs::path way = location_.directory; way != given && io::is_within(way, given);
             way = way.parent_path(), prefix += kAbove) {
            bool is_readable = true;
            for (const fs::directory_entry& entry :
                 try_entries_of(way.parent_path(), is_readable)) {
                if (entry.path().filename() != way.filename()) {
                    add(entry, prefix + entry.path().filename().string(), kDeepest);
                }
            }
        }
    }

    std::vector<Neighbour> find_neighbours() {
        std::error_code failed;
        const fs::path directory = fs::canonical(location_.directory, failed);
        std::erase_if(found_, [&](const Neighbour& neighbour) {
            return linked_.contains((directory / neighbour.path).lexically_normal());
        });
        std::ranges::sort(found_, natural_less, &Neighbour::path);
        return std::move(found_);
    }

  private:
    void add(const fs::directory_entry& entry, const std::string& path, int depth) {
        std::error_code failed;
        if (entry.is_symlink(failed)) {
            const fs::path end = fs::canonical(entry.path(), failed);
            if (!failed) {
                linked_.insert(end);
            }
        }
        if (entry.is_directory(failed)) {
            const auto known = known_verdict(location_, path + "/");
            if ((known && known->is_whole) || depth == kDeepest || found_.size() > kMostEntries) {
                found_.push_back({path + "/", 0});
            } else {
                below(entry.path(), path + "/", depth + 1);
            }
        } else if (entry.is_regular_file(failed) && !scanned_.contains(path)) {
            const Bytes bytes = shards_.contains(path) ? 0 : entry.file_size(failed);
            found_.push_back({path, failed ? 0 : bytes});
        }
    }

    const Location& location_;
    std::set<std::string> scanned_;
    std::set<std::string_view> shards_;
    std::set<fs::path> linked_;  // where links of the listing lead
    std::vector<Neighbour> found_;
};

NeighbourVerdict of_directory(std::string_view path) {
    return parse_step(name_of(path))
               ? NeighbourVerdict{"iterations", "another iteration"}
               : NeighbourVerdict{printable(path), "a directory that was not searched", true};
}

NeighbourVerdict of_file(std::string_view path, bool is_empty) {
    const std::string_view name = name_of(path);
    const std::size_t dot = name.rfind('.');
    const std::string kind = dot == std::string_view::npos || dot == 0
                                 ? printable(name)
                                 : "*" + printable(name.substr(dot));
    if (!could_hold_weights(name)) {
        return {kind, "not weights"};
    }
    if (is_empty) {
        return {kind, "empty"};
    }
    return {printable(path), "no file that is read names it", true};
}

NeighbourVerdict verdict_on(const Location& location, std::string_view path, bool is_empty) {
    if (auto known = known_verdict(location, path)) {
        known->may_hold_weights = known->may_hold_weights && !is_empty;
        return *known;
    }
    return path.ends_with('/') ? of_directory(path) : of_file(path, is_empty);
}

// Directories below the checkpoint with a whole HuggingFace model in them, such as an earlier merge
// wrote there.
std::set<std::string, std::less<>> model_directories(const std::vector<Neighbour>& neighbours) {
    std::map<std::string, Listing> listings;
    for (const Neighbour& neighbour : neighbours) {
        const std::size_t slash = neighbour.path.rfind('/');
        if (slash != std::string::npos && !neighbour.path.starts_with(kAbove)) {
            listings[neighbour.path.substr(0, slash + 1)].files.push_back(
                neighbour.path.substr(slash + 1));
        }
    }
    std::set<std::string, std::less<>> models;
    for (const auto& [directory, listing] : listings) {
        if (is_hf_model(listing) && contains(listing.files, "config.json")) {
            models.insert(directory);
        }
    }
    return models;
}

// Whether it has a size that no state but the optimizer's has.
bool is_too_large(const NeighbourVerdict& verdict, const Neighbour& neighbour, Bytes model_bytes) {
    constexpr Bytes kSmall = 256U << 10U;
    return verdict.reason == kTrainingState && neighbour.bytes > kSmall &&
           neighbour.bytes > model_bytes / 2 && !has_part(neighbour.path, "optim");
}

// Above the checkpoint's directory lie other things too: what holds no weights is of no interest,
// and neither are directories but for other iterations.
bool is_elsewhere(std::string_view path, const NeighbourVerdict& verdict) {
    return path.starts_with(kAbove) &&
           (path.ends_with('/') ? !parse_step(name_of(path)) : !verdict.may_hold_weights);
}

/// Each neighbour, and what becomes of it. `read`: what was read of the location.
std::vector<std::pair<const Neighbour*, NeighbourVerdict>> judged(const Location& location,
                                                                  const Catalogue& read) {
    Bytes model_bytes = 0;
    for (const File& file : read.files) {
        model_bytes = checked_add_bytes(model_bytes, file.size, "bytes of the shard files");
    }
    const auto models = model_directories(location.neighbours);
    const std::set<std::string_view> shards(location.shard_files.begin(),
                                            location.shard_files.end());
    std::vector<std::pair<const Neighbour*, NeighbourVerdict>> all;
    for (const Neighbour& neighbour : location.neighbours) {
        const bool is_empty = neighbour.bytes == 0 && !shards.contains(neighbour.path);
        NeighbourVerdict verdict = verdict_on(location, neighbour.path, is_empty);
        const std::string directory = neighbour.path.substr(0, neighbour.path.rfind('/') + 1);
        if (verdict.may_hold_weights && models.contains(directory)) {
            verdict = {printable(directory) + "*", "a HuggingFace model of its own", false, false,
                       "copy"};
        }
        if (is_too_large(verdict, neighbour, model_bytes)) {
            verdict.reason = "called as training state is, but of a model's size";
            verdict.may_hold_weights = true;
        }
        all.emplace_back(&neighbour, std::move(verdict));
    }
    return all;
}

}  // namespace

std::vector<Neighbour> look_around(const fs::path& given, const Location& location) {
    NeighbourSearch look(location);
    look.below(location.directory, "", 0);
    look.above(given);
    return look.find_neighbours();
}

void account_for_neighbours(const Location& location, Catalogue& out) {
    std::set<std::string_view> read(location.shard_files.begin(), location.shard_files.end());
    for (const File& file : out.files) {
        read.insert(file.path);
    }
    IgnoredRows rows;
    rows.add(out.ignored);
    std::vector<std::string> doubtful;
    Bytes doubtful_bytes = 0;
    for (const auto& [neighbour, verdict] : judged(location, out)) {
        if (read.contains(neighbour->path) || verdict.reason.empty() ||
            is_elsewhere(neighbour->path, verdict)) {
            continue;
        }
        rows.add({verdict.pattern, verdict.reason}, 1, neighbour->bytes);
        if (verdict.may_hold_weights) {
            doubtful.push_back(neighbour->path);
            doubtful_bytes += neighbour->bytes;
        }
    }
    out.ignored = rows.rows();
    if (!doubtful.empty()) {
        out.warnings["weights_left_aside"] =
            counted(doubtful.size(), "file") + " with " + human_bytes(doubtful_bytes) +
            " could hold weights of this model but " + verb_of(doubtful.size(), "is", "are") +
            " not read: " + listed(doubtful) + "; " +
            verb_of(doubtful.size(), "does it", "do they") + " belong to another save?";
    }
}

std::vector<std::string> weights_beside(const Location& location, const Catalogue& read) {
    std::set<std::string_view> files = collect_set<std::string_view>(read.files, &File::path);
    std::vector<std::string> beside;
    for (const auto& [neighbour, verdict] : judged(location, read)) {
        const std::string& path = neighbour->path;
        const bool may_be = verdict.may_hold_weights || verdict.holds == "copy" ||
                            (verdict.holds == "weights" && could_hold_weights(path));
        if (may_be && !path.starts_with(kAbove) && !files.contains(path)) {
            beside.push_back(path);
        }
    }
    return beside;
}

}  // namespace shardweld::formats
