// Legacy Megatron checkpoints: mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt.
// Source: megatron-core 0.16.1 megatron/training/checkpointing.py (generate_state_dict).

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "catalogue/provenance.hpp"
#include "core/fingerprint.hpp"
#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/rank_grid.hpp"
#include "formats/recognise.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"

#include "args.hpp"
#include "dist_state.hpp"
#include "grid.hpp"
#include "legacy_optimizer.hpp"
#include "legacy_scan.hpp"
#include "model_names.hpp"
#include "numbering.hpp"
#include "stage_content.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::string_view kModelFile = "model_optim_rng.pt";
// With the first distributed optimizers (2022): directories with one more number hold optim.pt
// alone.
constexpr std::string_view kOldModelFile = "model_rng.pt";

/// Error(mismatch) with the first argument on which two files contradict each other; reads both
/// again. Without details where this rank cannot.
void require_agreeing_args(const Location& location, const std::string& a, const std::string& b) {
    const auto args_of = [&](const std::string& file) {
        const auto input = io::InputFile::open(location.directory / file);
        const TorchFile torch_file = TorchFile::read(input);
        const PickleValue* const args = args_in(torch_file.root());
        return args == nullptr ? StatedConfig()
                               : common_args(*args, ScalarReader(torch_file, input));
    };
    if (!io::is_file(location.directory / a) || !io::is_file(location.directory / b)) {
        throw mixed_saves_error("args are not the same in " + printable(a) + " and " +
                                printable(b));
    }
    require_agreement(args_of(a), a, args_of(b), b);
}

// Fact `name` of all scans; Error(mismatch) naming two files that differ.
std::optional<Index> common_fact(const std::vector<StateScan>& scans, const std::string& name) {
    catalogue::Claims<std::optional<Index>> claims;
    for (const auto& [scan, state] : scans) {
        claims.agree(name, copy_of(find_value(scan.facts, name)), scan.files.front().path);
    }
    return *claims.find(name);
}

// Tensor names of Megatron before megatron-core.
bool has_old_names(const std::vector<Shard>& shards) {
    return std::ranges::any_of(shards, [](const Shard& shard) {
        const std::string& name = shard.name;
        return has_part(name, ".query_key_value.") || has_part(name, ".dense_h_to_4h.");
    });
}

/// Files whose tensors have the same names and shapes.
std::string likeness_of(const Catalogue& scan) {
    std::uint64_t sum = 0;  // in any order
    for (const Shard& shard : scan.shards) {
        Fingerprint print;
        print.add(static_cast<std::uint64_t>(shard.at.vpp));
        print.add(shard.name.text());
        for (const Index extent : shard.shape) {
            print.add(static_cast<std::uint64_t>(extent));
        }
        sum += print.value();
    }
    return std::to_string(sum);
}

/// What names and args say about each file's part; args, already compared, also about the save.
void add_statements(const std::vector<StateScan>& scans, const Grid& grid, Catalogue& out) {
    std::vector<std::optional<Index>> ranks =
        collect_list(scans, [](const StateScan& scan) { return scan.own.rank; });
    const auto places = places_by_rank(grid, out.claims, ranks);
    for (const std::size_t i : indices(scans)) {
        const Catalogue& scan = scans[i].told;
        const std::string& file = scan.files.front().path;
        FileAssertion args{file, "args", {}, {}};
        if (!places.empty() && ranks[i]) {
            args.rank = places[i];
            args.rank["rank"] = std::to_string(*ranks[i]);
        } else {
            args.likeness = likeness_of(scan);
        }
        if (scans[i].own.args) {
            args.save["all other arguments"] = "the same";
        }
        out.statements.push_back({file, "its name", place_in(grid, grid.places[i]), {}, false});
        out.statements.push_back(std::move(args));
        append_all(out.statements, scan.statements);
    }
}

void require_same_args(const Location& location, const std::vector<StateScan>& scans) {
    for (const auto& [scan, state] : scans) {
        if (state.args != scans.front().own.args) {
            require_agreeing_args(location, scans.front().told.files.front().path,
                                  scan.files.front().path);
        }
    }
}

void add_shards(std::vector<StateScan> scans, const Grid& grid, Catalogue& out) {
    Assembler all(out);
    out.shards.reserve(
        add_up(scans, [](const StateScan& scan) { return scan.told.shards.size(); }));
    for (const std::size_t i : indices(scans)) {
        all.add_scan(scans[i].told);
        for (auto& shard : scans[i].told.shards) {
            const int vpp = shard.at.vpp;
            shard.at = grid.places[i];
            shard.at.vpp = vpp;
            out.shards.push_back(std::move(shard));
        }
    }
    all.finish();
}

void require_chunks(const std::map<std::string, Index>& stated, Index found) {
    auto* const at = find_value(stated, "vpp");
    if (at != nullptr) {
        require_equal("the number of virtual pipeline stages", *at, "args", found, "the files");
    }
}

std::size_t n_numbers(const std::string& rank) {
    return parse_rank_name(rank)->n_fields;
}

std::string summary(const Grid& grid, Index vpp, const Catalogue& catalogue) {
    std::string text = "Megatron legacy checkpoint" + catalogue::iteration_text(catalogue.facts) +
                       ", " + counted(catalogue.files.size(), "rank file");
    const auto add = [&](const std::string& name, Index size) {
        if (size > 1) {
            text.append(", ").append(name).append(" ").append(std::to_string(size));
        }
    };
    add("tp", grid.tp);
    add("pp", grid.pp);
    add("vpp", vpp);
    add("ep", grid.ep);
    return text;
}

constexpr const char* kLeftAside = "left aside beside the model in each rank directory: ";

/// Takes the optimizer's file out of the note on what is left aside, which was written before
/// anyone asked for states.
void tell_taken(Catalogue& catalogue) {
    if (catalogue.optimizer.form != kDistributedOptimizerFile) {
        return;
    }
    const std::string taken = kDistributedOptimizerFile;
    std::erase(catalogue.notes, kLeftAside + taken);
    for (std::string& note : catalogue.notes) {
        if (note.starts_with(kLeftAside)) {
            note = replaced(replaced(std::move(note), taken + ", ", ""), ", " + taken, "");
        }
    }
}

// All ranks write the same file names; other files of the first rank are noted.
std::string find_model_file(const fs::path& directory, const std::string& rank,
                            Location& location) {
    const Listing listing = try_list_directory(directory / rank);
    std::string found;
    std::vector<std::string> others;
    for (const std::string& file : listing.files) {
        if (found.empty() && (file == kModelFile || file == kOldModelFile)) {
            found = file;
        } else {
            others.push_back(file);
        }
    }
    if (!found.empty() && !others.empty()) {
        location.notes.push_back(kLeftAside + name_list(others));
    }
    return found;
}

std::optional<Location> probe_legacy(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(legacy_format, directory);
    const auto ranks = filter_list(listing.directories, [](const std::string& name) {
        return parse_rank_name(name).has_value();
    });
    const std::string model_file =
        ranks.empty() ? "" : find_model_file(directory, ranks.front(), location);
    if (model_file.empty()) {
        return std::nullopt;
    }
    for (const std::string& rank : ranks) {
        if (model_file != kOldModelFile || n_numbers(rank) == n_numbers(ranks.front())) {
            location.shard_files.push_back((fs::path(rank) / model_file).string());
        }
    }
    return location;
}

StateScan scan_any(const Location& location, const std::string& file) {
    if (file.ends_with(".pt")) {
        return scan_legacy(location, file);
    }
    return in_context("file ", file, [&] {
        return StateScan{scan_claims((location.directory / file).lexically_normal())};
    });
}

Catalogue join_legacy(const Location& location, std::vector<StateScan> scans) {
    Catalogue out;
    out.facts = location.facts;
    out.claims = scans.front().told.claims;
    out.warnings = scans.front().told.warnings;
    refuse_unsupported(out.claims);
    FileState known;
    for (; scans.size() > location.shard_files.size(); scans.pop_back()) {
        add_claims(scans.back(), known, out);
    }
    require_same_args(location, scans);
    LegacyOptimizer optimizer(scans);
    std::vector<std::optional<Index>> samples =
        collect_list(scans, [](const StateScan& scan) { return scan.own.sample; });
    const auto stated = stated_sizes(out.claims);
    const Grid grid = place_files(location.shard_files, stated);
    add_statements(scans, grid, out);
    const Index vpp = common_fact(scans, "vpp").value_or(1);
    require_chunks(stated, vpp);
    const auto version = common_fact(scans, "version");
    if (const auto iteration = common_fact(scans, "iteration")) {
        out.facts.emplace("iteration", *iteration);
    }
    add_shards(std::move(scans), grid, out);
    // Before all else that a file in another's place would show as.
    (void)catalogue::compare_statements(out.files, out.statements);
    require_own_tensors(out.shards, out.files, grid.places, samples);
    require_ends(out.shards, out.files);
    number_layers(out.shards, out.files, grid.places,
                  {grid.pp, to_int(vpp, "the number of model chunks"),
                   number_claim(out.claims, "num_layers")});
    require_same_names(out.shards, out.files, grid.places);
    if (shares_embeddings(out.claims)) {
        out.facts[kSharedEmbeddings] = 1;
    }
    for (const auto& [fact, size] : std::map<std::string, Index>{
             {"tp", grid.tp}, {"pp", grid.pp}, {"ep", grid.ep}, {"etp", grid.etp}, {"vpp", vpp}}) {
        out.facts[fact] = size;
    }
    out.facts["t"] = grid.tp;
    out.facts["te"] = grid.etp;
    out.facts["version"] = version.value_or(has_old_names(out.shards) ? 0 : 3);
    note_adapter(out);
    out.notes = {summary(grid, vpp, out)};
    note_unchecked(out);
    optimizer.join(out);
    return out;
}

/// The parallel sizes of a catalogue's facts, or those that the first file states.
std::map<std::string, Index> sizes_of(const RankFiles& files) {
    if (files.location != nullptr) {
        return stated_sizes(scan_legacy(*files.location, files.paths.front()).told.claims);
    }
    std::map<std::string, Index> sizes = files.facts;
    std::erase_if(sizes, [](const auto& fact) {
        constexpr std::array<std::string_view, 4> kSizes = {"tp", "pp", "ep", "etp"};
        return !contains(kSizes, fact.first);
    });
    return sizes;
}

RankGrid legacy_grid(const RankFiles& files) {
    const auto stated = sizes_of(files);
    const Grid found = arrange(files.paths, stated);
    RankGrid grid({{"pp", found.pp}, {"ep", found.ep}, {"tp", found.tp}},
                  RankGrid::GridPlace::none);
    const auto place_of = [&](const Coordinates& at) {
        const int place = (at.pp * found.ep + at.ep) * found.tp + at.tp;
        return static_cast<std::size_t>(place);
    };
    for (const std::size_t file : indices(files.paths)) {
        if (!found.extra[file]) {
            grid.set_file(place_of(found.places[file]), file);
        }
    }
    // Names alone do not tell which places have none.
    if (!stated.empty() && !grid.places.empty()) {
        for (const auto& at : missing_places(found, grid.places.size())) {
            grid.places[place_of(at)] = RankGrid::GridPlace::missing;
        }
    }
    return grid;
}

}  // namespace

const Format legacy_format = of_megatron({
    .name = "megatron legacy",
    .detail_of =
        [](const Location& location) {
            return "legacy, " + counted(location.shard_files.size(), "rank file");
        },
    .ranks = legacy_grid,
    .probe = probe_legacy,
    .scan_list =
        [](const Location& location) {
            std::vector<std::string> files = location.shard_files;
            append_all(files, claims_files(location));
            return files;
        },
    .scan = scan_typed<FileState, scan_any>,
    .combine = combine_typed<FileState, join_legacy>,
    .split_flat_states = tell_taken,
});

}  // namespace shardweld::formats::megatron
