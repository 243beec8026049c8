// .distcp files with their `.metadata`: one for the save, or one for each rank of a save without
// collectives.
// Source: torch 2.15 torch/distributed/checkpoint/filesystem.py.

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/registry.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/file_sets.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

#include "join_scans.hpp"
#include "model_selection.hpp"

namespace shardweld::formats::dcp {

namespace {

using catalogue::Catalogue;

constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kRankPrefix = "__";
/// A trainer whose models have names of their own; the hub's have none of these.
struct TrainerNames {
    const char* dialect;
    const char* whose;
    std::array<std::string_view, 2> telling;  ///< one is enough; '#' is a number
};
constexpr std::array<TrainerNames, 2> kTrainers = {{
    {"torchtitan", "torchtitan's", {"tok_embeddings.weight", "layers.#.attention_norm.weight"}},
    {"olmo_core", "OLMo-core's", {"lm_head.w_out.weight", "blocks.#.attention.w_q.weight"}},
}};

void note_trainer(Catalogue& out) {
    const auto* const trainer = std::ranges::find_if(kTrainers, [&](const TrainerNames& names) {
        return std::ranges::any_of(out.tensors, [&](const catalogue::Tensor& tensor) {
            return std::ranges::any_of(names.telling, [&](std::string_view pattern) {
                return matches(pattern, tensor.name);
            });
        });
    });
    if (trainer != kTrainers.end()) {
        out.dialect = trainer->dialect;
        out.notes.push_back(std::string("its names are ") + trainer->whose);
    }
}

// "__12.metadata": 12.
std::optional<Index> rank_of_metadata(std::string_view file) {
    if (!file.starts_with(kRankPrefix) || !file.ends_with(kMetadata)) {
        return std::nullopt;
    }
    file.remove_prefix(kRankPrefix.size());
    file.remove_suffix(kMetadata.size());
    return parse_index(file);
}

bool is_shard(std::string_view file) {
    return file.ends_with(".distcp") || rank_of_metadata(file).has_value();
}

std::string path_of(const DcpMetadata& metadata, const std::string& key) {
    const auto at = metadata.paths.find(key);
    return at == metadata.paths.end() || at->second.empty() ? key : path_name(at->second);
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
        leave_aside_object(location, {metadata.files.at(object.file), object.offset, object.length},
                           *name, ignored);
    } else {
        ignored.add(row ? *row : std::pair(printable(dotted(path)), std::string("not a tensor")), 1,
                    object.length);
    }
}

// The shard files that a metadata file has to name: those of its rank ("__12_0.distcp"); the first
// one also those of ranks without one, which are all beside `.metadata`.
std::vector<std::string> shards_of(const Location& location, const std::string& metadata_file) {
    std::set<std::string_view> owners;
    std::string_view first = metadata_file;
    for (const std::string& file : location.shard_files) {
        if (rank_of_metadata(file)) {
            first = owners.empty() ? file : first;
            owners.insert(std::string_view(file).substr(0, file.find('.')));
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

Catalogue scan_metadata(const Location& location, const std::string& file) {
    DcpMetadata metadata = DcpMetadata::read(location.directory / file);
    Catalogue out;
    IgnoredRows ignored;
    WeightHolders holders;
    for (const DcpTensor& stored : metadata.tensors) {
        std::string path = path_of(metadata, stored.name);
        // Training state is the larger part of a checkpoint and need not travel between ranks; with
        // a prefix the user says what is wanted.
        const auto row = location.prefix.empty() ? training_state(path, stored) : std::nullopt;
        if (row) {
            ignored.add(*row, 1, stored_bytes(stored));
        } else {
            holders.add(path);
            out.tensors.push_back(tensor_of(stored));
            out.tensors.back().name = std::move(path);
        }
    }
    for (const DcpObject& object : metadata.objects) {
        leave_object(location, metadata, object, holders, ignored);
    }
    out.ignored = ignored.take();
    note_unnamed(location, shards_of(location, file), metadata.files, out);
    keep_used_files(std::move(metadata.files), out, metadata.ends);
    add_save_name(metadata.checkpoint_id, file, out);
    return out;
}

void require_all_ranks(const std::vector<std::string>& metadata_files) {
    std::vector<Index> ranks;
    for (const std::string& file : metadata_files) {
        ranks.push_back(rank_of_metadata(file).value_or(0));
    }
    require_all_numbers(ranks, 0, std::string(kRankPrefix), std::string(kMetadata));
}

// Files of tensors that were left aside are not needed.
void drop_unused_files(Catalogue& catalogue) {
    std::vector<std::string> files;
    std::vector<Bytes> ends;
    for (auto& file : std::exchange(catalogue.files, {})) {
        files.push_back(std::move(file.path));
        ends.push_back(file.size);
    }
    keep_used_files(std::move(files), catalogue, ends);
}

class Dcp final : public Format {
  public:
    [[nodiscard]] std::string_view name() const override { return "torch dcp"; }
    [[nodiscard]] std::string_view backend() const override { return "dcp"; }
    [[nodiscard]] std::string_view noun() const override { return "torch DCP checkpoint"; }
    [[nodiscard]] bool recognises(const Listing& listing) const override {
        return listing.has_file(".metadata");
    }
    [[nodiscard]] std::string_view diagnose(const Listing& listing) const override {
        return first_with_suffix(listing, ".distcp") ? "has .distcp files but no .metadata: the "
                                                       "save was interrupted or the copy left "
                                                       "hidden files out"
                                                     : "";
    }
    [[nodiscard]] std::string_view subject_of(InputOption option) const override {
        return option == InputOption::prefix ? "torch DCP checkpoints" : "";
    }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        const bool has_ranks =
            std::any_of(listing.files.begin(), listing.files.end(),
                        [](const std::string& file) { return rank_of_metadata(file).has_value(); });
        if ((!listing.has_file(kMetadata) && !has_ranks) ||
            is_bytecheckpoint(directory / kMetadata)) {
            return std::nullopt;
        }
        Location location = begun_at(directory, &listing);
        std::copy_if(listing.files.begin(), listing.files.end(),
                     std::back_inserter(location.shard_files), is_shard);
        // As torch does: the save's own metadata goes before that of ranks.
        if (listing.has_file(kMetadata)) {
            std::erase_if(location.shard_files, [](const std::string& file) {
                return rank_of_metadata(file).has_value();
            });
        }
        return location;
    }

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        std::vector<std::string> files;
        std::copy_if(location.shard_files.begin(), location.shard_files.end(),
                     std::back_inserter(files),
                     [](const std::string& file) { return rank_of_metadata(file).has_value(); });
        return files.empty() ? std::vector{std::string(kMetadata)} : files;
    }

    [[nodiscard]] Scan scan(const Location& location, const std::string& file) const override {
        return scan_metadata(location, file);
    }

    [[nodiscard]] Catalogue combine(const Location& location,
                                    std::vector<Scan> scans) const override {
        const std::size_t n_scans = scans.size();
        std::string hint;
        if (const auto metadata = scan_list(location); metadata.front() != kMetadata) {
            require_all_ranks(metadata);
            hint = "the metadata of ranks 0 to " + std::to_string(n_scans - 1) +
                   " was found: copy that of all ranks";
        }
        Catalogue out = join(std::move(scans), Shapes::stated);
        select_model(out);
        note_trainer(out);
        try {
            require_complete(out, hint);
        } catch (Error& error) {
            error.add_context("file " + (n_scans == 1 ? scan_list(location).front()
                                                      : "__*" + std::string(kMetadata)));
            throw;
        }
        drop_unused_files(out);
        add_likenesses(std::string(kMetadata), out);
        tell_unnamed(out);
        out.facts = location.facts;
        out.notes.insert(out.notes.begin(), "torch DCP checkpoint, " +
                                                std::to_string(out.files.size()) + " shard files");
        if (!hint.empty()) {
            out.notes.push_back("saved without collectives: metadata of " +
                                std::to_string(n_scans) + " ranks");
        }
        return out;
    }

    [[nodiscard]] Resolution resolve(const Location& location, const Catalogue& catalogue,
                                     std::span<const std::uint32_t> files,
                                     const std::function<void()>& before_file) const override {
        return locate_blobs(location, catalogue, files, before_file);
    }
};

}  // namespace

const Format& dcp_format() {
    static const Dcp format;
    return format;
}

}  // namespace shardweld::formats::dcp
