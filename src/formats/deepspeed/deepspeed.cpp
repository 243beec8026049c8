// DeepSpeed's checkpoints as they are saved: model states, and flat partitions of fp32 weights.
#include <algorithm>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/master_samples.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "formats/shared/optimizer_file.hpp"

#include "file_names.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// The files of a checkpoint, once for all: a scan of one file of thousands knows them by it. Model
/// states by their model-parallel rank, of each the lowest data-parallel one.
struct StatesFound {
    std::map<Index, Index> whole;  ///< of ZeRO 0 to 2
    std::map<Index, Index> split;  ///< of ZeRO-3
    bool has_partitions = false;

    void add_file(const FileName& name) {
        has_partitions = has_partitions || name.kind == ZeroFile::partition;
        if (name.kind == ZeroFile::model || name.kind == ZeroFile::model_part) {
            auto& states = name.kind == ZeroFile::model ? whole : split;
            Index& first = states.try_emplace(name.mp, name.dp).first->second;
            first = std::min(first, name.dp);
        }
    }
};

StatesFound states_of(const Location& location) {
    return decoded<StatesFound>(location.own);
}

/// ZeRO-3 has no weights but in partitions, and before it there is a choice. Beside an optimizer's
/// states they are those of the module, which the masters prove.
Weights weights_of(const Location& location) {
    const StatesFound found = states_of(location);
    const bool is_split = !found.split.empty() && found.whole.empty();
    const bool are_masters =
        location.weights == WeightsFrom::automatic
            ? location.state == TakenState::weights && (found.has_partitions || is_split)
            : location.weights == WeightsFrom::master;
    return are_masters ? Weights::master : is_split ? Weights::rounded : Weights::model;
}

bool is_scanned(const Location& location, const std::string& file) {
    const auto name = parse_file_name(file);
    const bool has_partitions =
        location.state != TakenState::weights || weights_of(location) != Weights::model;
    return name && name->kind != ZeroFile::expert_optimizer &&
           (name->kind != ZeroFile::partition || has_partitions);
}

/// Only the model states of the lowest data-parallel rank are read in full: thousands of ranks
/// repeat the same names.
bool is_first(const Location& location, const FileName& states) {
    const StatesFound found = states_of(location);
    return (states.kind == ZeroFile::model ? found.whole : found.split).at(states.mp) == states.dp;
}

std::string source_note(const Location& location) {
    const std::string why = location.weights != WeightsFrom::automatic ? ", as --weights says"
                            : location.state != TakenState::weights
                                ? ", beside the states of their optimizer"
                                : "";
    switch (weights_of(location)) {
        case Weights::master:
            return "weights: the fp32 masters in the optimizer's partitions" +
                   (why.empty() ? ", from which zero_to_fp32.py makes the model too; --weights "
                                  "model takes those of the module"
                                : why);
        case Weights::rounded:
            return "weights: the fp32 masters in the optimizer's partitions, rounded to the "
                   "module's dtype: ZeRO-3 keeps no other copy";
        case Weights::model:
            break;
    }
    return "weights: those of the module" +
           (!why.empty() ? why : ": there are no fp32 masters in partitions (*_optim_states.pt)");
}

std::optional<Location> probe_zero(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(zero_format, directory, &listing);
    StatesFound found;
    for (const std::string& file : listing.files) {
        if (const auto name = parse_file_name(file)) {
            location.shard_files.push_back(file);
            found.add_file(*name);
        }
    }
    if (location.shard_files.empty() || listing.has_directory("zero")) {
        return std::nullopt;
    }
    location.own = encoded(found);
    return location;
}

std::vector<std::string> files_to_scan(const Location& location) {
    return filter_list(location.shard_files,
                       [&](const std::string& file) { return is_scanned(location, file); });
}

FileScan scan_zero(const Location& location, const std::string& file) {
    const Weights weights = weights_of(location);
    const FileName name = parse_file_name(file).value_or(FileName{});
    if (name.kind == ZeroFile::partition) {
        FileScan scan = scan_partition(location, file, name);
        scan.own.given = name.dp == 0 && name.mp == 0 ? given_optimizer(location) : "";
        return scan;
    }
    const bool is_states = name.kind == ZeroFile::model || name.kind == ZeroFile::model_part;
    const bool is_rest = is_states && weights != Weights::model;
    const bool has_states = is_states && location.state != TakenState::weights;
    return scan_model_states(
        location, file, name,
        {is_rest ? WeightSelection::rest : WeightSelection::all, weights == Weights::master,
         (is_rest || has_states) && is_first(location, name), has_states, is_rest});
}

// Adds a row for the files found that hold none of the weights taken.
void note_unread(const Location& location, Catalogue& out) {
    for (const Neighbour& neighbour : location.neighbours) {
        if (parse_file_name(neighbour.path) && !is_scanned(location, neighbour.path)) {
            out.ignored.push_back(
                {"*_optim_states.pt", kTrainingState, 1, size_of(location, neighbour).value_or(0)});
        }
    }
}

std::string summary(const Catalogue& out) {
    std::string text = "DeepSpeed checkpoint";
    const auto add = [&](const char* fact, const std::string& before, const char* behind) {
        if (auto* const at = find_value(out.facts, fact)) {
            text += ", " + before + std::to_string(*at) + behind;
        }
    };
    add("zero_stage", "ZeRO stage ", "");
    add("iteration", "iteration ", "");
    add("dp_world_size", "", " data-parallel ranks");
    add("mp_world_size", "", " model-parallel ranks");
    return text;
}

Catalogue join_zero(const Location& location, std::vector<FileScan> scans) {
    Catalogue out;
    out.facts = location.facts;
    if (location.state == TakenState::weights) {
        join_files(std::move(scans), weights_of(location), out);
    } else {
        join_with_states(scans, weights_of(location), out);
    }
    note_unread(location, out);
    out.notes = {summary(out), source_note(location)};
    return out;
}

}  // namespace

const Format zero_format = {
    .name = "deepspeed",
    .backend = "deepspeed",
    .noun = "DeepSpeed checkpoint",
    .option = InputOption::weights,
    .subject = "DeepSpeed's checkpoints",
    .probe = probe_zero,
    .scan_list = files_to_scan,
    .scan = scan_typed<FileContent, scan_zero>,
    .combine = combine_typed<FileContent, join_zero>,
    .resolve = read_samples,
};

}  // namespace shardweld::formats::deepspeed
