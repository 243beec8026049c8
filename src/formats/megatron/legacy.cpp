// Legacy Megatron checkpoints: mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt.

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "catalogue/provenance.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "adapter.hpp"
#include "args.hpp"
#include "dist_state.hpp"
#include "grid.hpp"
#include "legacy_scan.hpp"
#include "numbering.hpp"
#include "stage_content.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;

constexpr std::string_view kModelFile = "model_optim_rng.pt";
// With the first distributed optimizers (2022): directories with one more number hold optim.pt
// alone.
constexpr std::string_view kOldModelFile = "model_rng.pt";

std::optional<Index> fact_of(const Catalogue& scan, const std::string& name) {
    const auto at = scan.facts.find(name);
    return at == scan.facts.end() ? std::nullopt : std::optional(at->second);
}

// Fact `name` of all scans; Error(mismatch) naming two files that differ.
std::optional<Index> common_fact(const std::vector<StateScan>& scans, const std::string& name) {
    const auto text = [](std::optional<Index> value) {
        return value ? std::to_string(*value) : std::string("absent");
    };
    const auto first = fact_of(scans.front().told, name);
    for (const auto& [scan, state] : scans) {
        if (const auto value = fact_of(scan, name); value != first) {
            throw Error(ErrorCode::mismatch,
                        name + " is " + text(first) + " in " +
                            printable(scans.front().told.files.front().path) + " but " +
                            text(value) + " in " + printable(scan.files.front().path),
                        kOneSave);
        }
    }
    return first;
}

// Tensor names of Megatron before megatron-core.
bool has_old_names(const std::vector<catalogue::Shard>& shards) {
    return std::any_of(shards.begin(), shards.end(), [](const catalogue::Shard& shard) {
        const std::string& name = shard.name;
        return name.find(".query_key_value.") != std::string::npos ||
               name.find(".dense_h_to_4h.") != std::string::npos;
    });
}

/// Files whose tensors have the same names and shapes.
std::string likeness_of(const Catalogue& scan) {
    std::uint64_t sum = 0;  // in any order
    for (const catalogue::Shard& shard : scan.shards) {
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
    std::vector<std::optional<Index>> ranks;
    for (const StateScan& scan : scans) {
        ranks.push_back(scan.own.rank);
    }
    const auto places = places_by_rank(grid, out.claims, ranks);
    for (std::size_t i = 0; i < scans.size(); ++i) {
        const Catalogue& scan = scans[i].told;
        const std::string& file = scan.files.front().path;
        catalogue::Statement args{file, "args", {}, {}};
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
        out.statements.insert(out.statements.end(), scan.statements.begin(), scan.statements.end());
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
    IgnoredRows ignored;
    out.shards.reserve(std::accumulate(
        scans.begin(), scans.end(), std::size_t{0},
        [](std::size_t sum, const StateScan& scan) { return sum + scan.told.shards.size(); }));
    for (std::size_t i = 0; i < scans.size(); ++i) {
        join_scan(scans[i].told, ignored, out);
        for (auto& shard : scans[i].told.shards) {
            const int vpp = shard.at.vpp;
            shard.at = grid.places[i];
            shard.at.vpp = vpp;
            out.shards.push_back(std::move(shard));
        }
    }
    out.ignored = ignored.take();
}

void require_chunks(const std::map<std::string, Index>& stated, Index found) {
    const auto at = stated.find("vpp");
    if (at != stated.end() && at->second != found) {
        throw Error(ErrorCode::mismatch,
                    "args give " + std::to_string(at->second) +
                        " virtual pipeline stages per rank, but the files hold " +
                        counted(static_cast<std::size_t>(found), "model"),
                    kOneSave);
    }
}

std::vector<std::string> rank_directories(const fs::path& directory) {
    auto names = try_list_directory(directory).directories;
    std::erase_if(names, [](const std::string& name) { return !parse_rank_name(name); });
    return names;
}

std::size_t n_numbers(const std::string& rank) {
    return parse_rank_name(rank)->n_fields;
}

std::string summary(const Grid& grid, Index vpp, const Catalogue& catalogue) {
    std::string text = "Megatron legacy checkpoint";
    if (const auto at = catalogue.facts.find("iteration"); at != catalogue.facts.end()) {
        text += ", iteration " + std::to_string(at->second);
    }
    text += ", " + std::to_string(catalogue.files.size()) + " rank files";
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

class Legacy final : public FormatOf<FileState> {
  public:
    [[nodiscard]] std::string_view name() const override { return "megatron legacy"; }
    [[nodiscard]] std::string_view backend() const override { return "megatron"; }
    [[nodiscard]] std::string_view noun() const override { return "Megatron checkpoint"; }
    [[nodiscard]] std::string_view dialect() const override { return "megatron_core"; }
    [[nodiscard]] std::string_view subject_of(InputOption option) const override {
        return option == InputOption::prefix ? "Megatron checkpoints" : "";
    }
    [[nodiscard]] bool pads_vocabulary() const override { return true; }
    [[nodiscard]] std::string detail_of(const Location& location) const override {
        return "legacy, " + std::to_string(location.shard_files.size()) + " rank files";
    }
    [[nodiscard]] std::string_view looks_for() const override { return "mp_rank_*"; }
    [[nodiscard]] bool recognises(const Listing& listing) const override {
        return std::any_of(listing.directories.begin(), listing.directories.end(),
                           [](const std::string& name) { return name.starts_with("mp_rank_"); });
    }
    [[nodiscard]] std::string_view diagnose(const Listing& listing) const override {
        return recognises(listing) ? "has mp_rank_* directories, but no model_optim_rng.pt in the "
                                     "first: the save was interrupted or the copy left files out"
                                   : "";
    }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        Location location = begun_at(directory);
        const auto ranks = rank_directories(directory);
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

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        std::vector<std::string> files = location.shard_files;
        std::ranges::move(claims_files(location), std::back_inserter(files));
        return files;
    }

  private:
    [[nodiscard]] StateScan scan_file(const Location& location,
                                      const std::string& file) const override {
        if (file.ends_with(".pt")) {
            return scan_legacy(location, file);
        }
        try {
            return {scan_claims((location.directory / file).lexically_normal())};
        } catch (Error& error) {
            error.add_context("file " + printable(file));
            throw;
        }
    }

    [[nodiscard]] Catalogue join(const Location& location,
                                 std::vector<StateScan> scans) const override;

    // All ranks write the same file names; other files of the first rank are noted.
    static std::string find_model_file(const fs::path& directory, const std::string& rank,
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
            location.notes.push_back("left aside beside the model in each rank directory: " +
                                     name_list(others));
        }
        return found;
    }
};

Catalogue Legacy::join(const Location& location, std::vector<StateScan> scans) const {
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
    std::vector<std::optional<Index>> samples;
    for (const StateScan& scan : scans) {
        samples.push_back(scan.own.sample);
    }
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
    (void)catalogue::judge(out.files, out.statements);
    require_own_tensors(out.shards, out.files, {grid.places, std::move(samples)});
    require_ends(out.shards, out.files);
    number_layers(out.shards, out.files, grid.places,
                  {grid.pp, to_int(vpp, "the number of model chunks"),
                   number_claim(out.claims, "num_layers")});
    require_same_names(out.shards, out.files, grid.places);
    if (shares_embeddings(out.claims)) {
        out.facts["shared_embeddings"] = 1;
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
    return out;
}

}  // namespace

const Format& legacy_format() {
    static const Legacy format;
    return format;
}

}  // namespace shardweld::formats::megatron
