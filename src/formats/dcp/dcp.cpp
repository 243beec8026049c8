// .distcp files with their `.metadata`: one for the save, or one for each rank of a save without
// collectives.
// Source: torch 2.15 torch/distributed/checkpoint/filesystem.py.

#include <algorithm>
#include <set>
#include <utility>

#include "core/in_context.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/registry.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "shardweld/error.hpp"

#include "join_scans.hpp"
#include "model_selection.hpp"
#include "optimizer_state.hpp"
#include "uneven_rows.hpp"

namespace shardweld::formats::dcp {

namespace {

constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kRankPrefix = "__";
/// The rank of a file that lists a rank's shards.
std::optional<Index> rank_of_metadata(std::string_view file) {
    const auto found = match_rule(name_rules().indices, file, dcp_format.name);
    return found ? std::optional(found->parts.number("rank")) : std::nullopt;
}

bool is_shard(std::string_view file) {
    return file.ends_with(".distcp") || rank_of_metadata(file).has_value();
}

std::string path_of(const DcpMetadata& metadata, const std::string& key) {
    auto* const at = find_value(metadata.paths, key);
    return at == nullptr || at->empty() ? key : path_name(*at);
}

// An object among the model's tensors is looked into, others are told by their names.
void leave_object(const Location& location, const DcpMetadata& metadata, const DcpObject& object,
                  const WeightHolders& holders, IgnoredRows& ignored) {
    const std::string path = path_of(metadata, object.name);
    const auto row = training_state(path);
    const bool is_wanted =
        location.prefix.empty() ? !row : dotted(path).starts_with(location.prefix);
    const auto name = is_wanted ? holders.name_of(path) : std::nullopt;
    if (name && object.length > 0) {
        leave_aside_object(location, place_of(object, metadata), *name, ignored);
    } else {
        if (!row) {  // torch pickles what lies in a tuple whole
            require_no_part(location, place_of(object, metadata), dotted(path),
                            [&](std::string_view known) { return holders.has(known); });
        }
        ignored.add(row ? *row : RowName(printable(dotted(path)), "not a tensor"), 1,
                    object.length);
    }
}

// The shard files that a metadata file has to name: those of its rank ("__12_0.distcp"); the first
// one also those of ranks without one, which are all beside `.metadata`.
std::vector<std::string> shards_of(const Location& location, const std::string& metadata_file) {
    std::set<std::string_view> owners;
    std::string_view first = metadata_file;
    for (const std::string_view file : location.shard_files) {
        if (rank_of_metadata(file)) {
            first = owners.empty() ? file : first;
            owners.insert(file.substr(0, file.find('.')));
        }
    }
    const auto owner = [](std::string_view file) {
        return file.substr(0, file.find_first_of("_.", kRankPrefix.size()));
    };
    std::vector<std::string> shards;
    for (const std::string& file : location.shard_files) {
        const bool is_own = owner(file) == owner(metadata_file);
        if (is_own || (metadata_file == first && !owners.contains(owner(file)))) {
            shards.push_back(file);
        }
    }
    return shards;
}

std::vector<std::string> metadata_of(const Location& location) {
    auto files = filter_list(location.shard_files, [](const std::string& file) {
        return rank_of_metadata(file).has_value();
    });
    return files.empty() ? std::vector{std::string(kMetadata)} : files;
}

Catalogue scan_metadata(const Location& location, const std::string& file) {
    DcpMetadata metadata = DcpMetadata::read(location.directory / file);
    Catalogue out;
    IgnoredRows ignored;
    WeightHolders holders;
    std::vector<std::string> placed;
    OptimizerReader optimizer(location, metadata, placed);
    for (const DcpTensor& stored : metadata.tensors) {
        std::string path = path_of(metadata, stored.name);
        if (optimizer.take_tensor(stored, path)) {
            continue;
        }
        // Training state is the larger part of a checkpoint and need not travel between ranks; with
        // a prefix the user says what is wanted.
        const auto row = location.prefix.empty() ? training_state(path, stored) : std::nullopt;
        if (row) {
            ignored.add(*row, 1, stored_bytes(stored));
        } else {
            holders.add(path);
            out.tensors.push_back(tensor_as_stored(location, metadata, stored, placed));
            out.tensors.back().name = std::move(path);
        }
    }
    for (const DcpObject& object : metadata.objects) {
        leave_object(location, metadata, object, holders, ignored);
        optimizer.take_object(object, path_of(metadata, object.name));
    }
    out.optimizer = optimizer.finish();
    if (!placed.empty()) {
        out.warnings["rows_placed_by_shapes"] = placed_text(placed);
    }
    if (location.state != TakenState::weights) {
        add_optimizer_file(location, file == metadata_of(location).front(), out.optimizer,
                           out.tensors);
    }
    out.ignored = ignored.rows();
    take_files(location, shards_of(location, file), std::move(metadata.files), out);
    add_save_name(metadata.checkpoint_id, file, out);
    return out;
}

void require_all_ranks(const std::vector<std::string>& metadata_files) {
    const std::set<Index> ranks = collect_set(
        metadata_files, [](const std::string& file) { return rank_of_metadata(file).value_or(0); });
    require_all_numbers(ranks, 0, std::string(kRankPrefix), std::string(kMetadata));
}

std::optional<Location> probe_dcp(const fs::path& directory, const Listing& listing) {
    const auto is_of_rank = [](const std::string& file) {
        return rank_of_metadata(file).has_value();
    };
    const bool has_one = listing.has_file(kMetadata);
    if ((!has_one && std::ranges::none_of(listing.files, is_of_rank)) ||
        is_bytecheckpoint(directory / kMetadata)) {
        return std::nullopt;
    }
    Location location = begun_at(dcp_format, directory, &listing);
    location.shard_files = filter_list(listing.files, is_shard);
    // As torch does: the save's own metadata goes before that of ranks.
    if (has_one) {
        std::erase_if(location.shard_files, is_of_rank);
    }
    return location;
}

Catalogue combine_dcp(const Location& location, std::vector<Scan> scans) {
    const std::size_t n_scans = scans.size();
    const auto metadata = metadata_of(location);
    std::string hint;
    if (metadata.front() != kMetadata) {
        require_all_ranks(metadata);
        hint = "the metadata of ranks 0 to " + std::to_string(n_scans - 1) +
               " was found: copy that of all ranks";
    }
    Catalogue out = join(std::move(scans), Shapes::stated);
    select_model(out);
    note_trainer(out);
    in_context("file ", n_scans == 1 ? metadata.front() : "__*" + std::string(kMetadata),
               [&] { require_complete(out, hint); });
    // Files of tensors that were left aside are not needed.
    order_files(out, Unused::dropped);
    add_likenesses(std::string(kMetadata), out);
    tell_unnamed(out);
    out.facts = location.facts;
    out.notes.insert(out.notes.begin(),
                     "torch DCP checkpoint, " + counted(out.files.size(), "shard file"));
    if (!hint.empty()) {
        out.notes.push_back("saved without collectives: metadata of " + std::to_string(n_scans) +
                            " ranks");
    }
    return out;
}

}  // namespace

/// .distcp files described by `.metadata`, or by one `__{rank}.metadata` per rank.
const Format dcp_format = {
    .name = "torch dcp",
    .backend = "dcp",
    .noun = "torch DCP checkpoint",
    .option = InputOption::prefix,
    .subject = "torch DCP checkpoints",
    .ranks = part_grid,
    .probe = probe_dcp,
    .scan_list = metadata_of,
    .scan = [](const Location& location, const std::string& file) -> Scan {
        return scan_metadata(location, file);
    },
    .combine = combine_dcp,
    .resolve = locate_archives,
};

}  // namespace shardweld::formats::dcp
