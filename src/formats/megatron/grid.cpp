#include "grid.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "args.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::string_view kPrefix = "mp_rank_";
constexpr Index kLargestRank = 1 << 20;
constexpr std::size_t kMostMissingShown = 10;

using StatedSizes = std::map<std::string, Index>;

Index stated_or(const StatedSizes& stated, const std::string& name, Index otherwise) {
    return copy_or(find_value(stated, name), otherwise);
}

// What the second and third number of a name count.
enum class Meaning { absent, pipeline, expert, data };
using Meanings = std::array<Meaning, 2>;

std::string_view directory_of(const std::string& file) {
    const std::string_view text = file;
    return text.substr(0, text.find('/'));
}

RankName name_of_file(const std::string& file) {
    const auto name = parse_rank_name(directory_of(file));
    if (!name) {
        throw Error(ErrorCode::internal, printable(file) + " is not in a rank directory");
    }
    return *name;
}

// One more number than sizes above one, or the other way round, means files of different saves.
std::vector<RankName> names_of(const std::vector<std::string>& files) {
    std::vector<RankName> names;
    for (const std::string& file : files) {
        names.push_back(name_of_file(file));
        require_equal("the number of ranks in the name", static_cast<Index>(names.front().n_fields),
                      files.front(), static_cast<Index>(names.back().n_fields), file);
    }
    return names;
}

Meanings meanings_of(std::size_t n_fields, const StatedSizes& stated) {
    const bool pipeline = stated_or(stated, "pp", 1) > 1;
    const bool expert = stated_or(stated, "ep", 1) > 1;
    const std::size_t n_expected = 1U + (pipeline ? 1U : 0U) + (expert ? 1U : 0U);
    if (n_fields < n_expected) {
        throw Error(ErrorCode::mismatch,
                    "args give pipeline size " + std::to_string(stated_or(stated, "pp", 1)) +
                        " and expert size " + std::to_string(stated_or(stated, "ep", 1)) +
                        ", but the rank directories have " + counted(n_fields, "number") +
                        " in their names, expected " + std::to_string(n_expected));
    }
    switch (n_fields) {
        case 2:
            return {expert ? Meaning::expert : Meaning::pipeline, Meaning::absent};
        case 3:
            // Before expert parallelism the third number was the data-parallel rank.
            return {Meaning::pipeline, expert || stated.empty() ? Meaning::expert : Meaning::data};
        default:
            return {Meaning::absent, Meaning::absent};
    }
}

void put_at(Coordinates& place, Meaning meaning, Index value) {
    if (meaning == Meaning::pipeline) {
        place.pp = to_int(value, "a rank");
    } else if (meaning == Meaning::expert) {
        place.ep = to_int(value, "a rank");
    }
}

// The stated size, or the number of ranks seen.
int agreed_size(const char* what, const std::vector<Coordinates>& places, int Coordinates::*axis,
                const StatedSizes& stated) {
    int seen = 1;
    for (const auto& place : places) {
        seen = std::max(seen, place.*axis + 1);
    }
    const Index size = stated_or(stated, what, seen);
    require_at_most(std::string(what) + " size", seen, size, "args");
    return to_int(size, "a parallel size");
}

std::string padded(int value, std::size_t width) {
    return zero_filled(std::to_string(value), width);
}

std::string directory_name(const Coordinates& place, const Meanings& meanings) {
    std::string name = std::string(kPrefix) + padded(place.tp, 2);
    for (const Meaning meaning : meanings) {
        if (meaning == Meaning::pipeline) {
            name += "_" + padded(place.pp, 3);
        } else if (meaning == Meaning::expert) {
            name += "_" + padded(place.ep, 3);
        } else if (meaning == Meaning::data) {
            name += "_000";
        }
    }
    return name;
}

void require_expressible(const Grid& grid) {
    if (grid.etp > grid.tp || grid.tp % grid.etp != 0) {
        throw Error(ErrorCode::unsupported,
                    "expert tensor size " + std::to_string(grid.etp) +
                        " does not divide tensor size " + std::to_string(grid.tp) +
                        ": file names of this layout do not say which expert shard a file holds",
                    "save as torch_dist instead");
    }
}

void require_distinct(const Grid& grid, const std::vector<std::string>& files) {
    std::map<Coordinates, std::size_t> seen;
    for (const std::size_t i : indices(files)) {
        if (grid.extra[i]) {
            continue;
        }
        const auto [at, is_new] = seen.emplace(grid.places[i], i);
        if (!is_new) {
            throw catalogue::same_part(files[at->second], files[i]);
        }
    }
}

void require_complete(const Grid& grid, const Meanings& meanings, const std::string& file) {
    const auto missing = missing_places(grid, kMostMissingShown + 1);
    if (missing.empty()) {
        return;
    }
    const std::string name = printable(file.substr(file.find('/')));
    const auto shown = std::span(missing).first(std::min(missing.size(), kMostMissingShown));
    throw files_missing(
        "rank files are missing: " +
        joined(shown, ", ",
               [&](const Coordinates& place) { return directory_name(place, meanings) + name; }) +
        (missing.size() > kMostMissingShown ? " and more" : "") + " (the run had tp " +
        std::to_string(grid.tp) + ", pp " + std::to_string(grid.pp) + ", ep " +
        std::to_string(grid.ep) + ", etp " + std::to_string(grid.etp) + ")");
}

}  // namespace

std::optional<RankName> parse_rank_name(std::string_view directory) {
    if (!directory.starts_with(kPrefix)) {
        return std::nullopt;
    }
    RankName name;
    for (const std::string_view part : split(directory.substr(kPrefix.size()), '_')) {
        const auto number = parse_index(part);
        if (!number || *number >= kLargestRank || name.n_fields == name.fields.size()) {
            return std::nullopt;
        }
        name.fields[name.n_fields++] = *number;
    }
    return name;
}

std::vector<Coordinates> missing_places(const Grid& grid, std::size_t most) {
    const std::set<Coordinates> present(grid.places.begin(), grid.places.end());
    std::vector<Coordinates> missing;
    const Index n_ranks = std::max<Index>(grid.tp, Index{grid.etp} * grid.ep);
    for (int p = 0; p < grid.pp; ++p) {
        for (Index r = 0; r < n_ranks && missing.size() < most; ++r) {
            Coordinates place;
            place.tp = static_cast<int>(r % grid.tp);
            place.pp = p;
            place.ep = static_cast<int>(r / grid.etp % grid.ep);
            place.etp = place.tp % grid.etp;
            if (!present.contains(place)) {
                missing.push_back(place);
            }
        }
    }
    return missing;
}

Grid arrange(const std::vector<std::string>& files, const StatedSizes& stated) {
    if (files.empty()) {
        throw Error(ErrorCode::not_found, "there is no mp_rank_* directory");
    }
    const auto names = names_of(files);
    const Meanings meanings = meanings_of(names.front().n_fields, stated);
    Grid grid;
    for (const RankName& name : names) {
        Coordinates place;
        place.tp = to_int(name.fields[0], "a rank");
        put_at(place, meanings[0], name.fields[1]);
        put_at(place, meanings[1], name.fields[2]);
        grid.places.push_back(place);
        grid.extra.push_back(meanings[1] == Meaning::data && name.fields[2] != 0);
    }
    grid.tp = agreed_size("tp", grid.places, &Coordinates::tp, stated);
    grid.pp = agreed_size("pp", grid.places, &Coordinates::pp, stated);
    grid.ep = agreed_size("ep", grid.places, &Coordinates::ep, stated);
    // Megatron's default: experts are split like everything else.
    grid.etp = to_int(stated_or(stated, "etp", grid.tp), "a parallel size");
    require_expressible(grid);
    for (auto& place : grid.places) {
        place.etp = place.tp % grid.etp;
    }
    return grid;
}

Grid place_files(const std::vector<std::string>& files, const StatedSizes& stated) {
    Grid grid = arrange(files, stated);
    require_distinct(grid, files);
    require_complete(grid, meanings_of(name_of_file(files.front()).n_fields, stated),
                     files.front());
    return grid;
}

namespace {

using Ranks = std::vector<std::optional<Index>>;

/// Ranks between neighbours along pp and ep.
struct Strides {
    Index pp = 1;
    Index ep = 1;
};

Index context_size(const StatedConfig& args) {
    return std::max<Index>(number_claim(args, "context_parallel_size").value_or(1), 1);
}

/// The job's ranks; nullopt where they are not made of these sizes alone.
std::optional<Index> world_of(const Grid& grid, const StatedConfig& args) {
    const auto world = number_claim(args, "world_size");
    const Index cp = context_size(args);
    const Index model = Index{grid.tp} * grid.pp;
    const bool has_encoder = number_claim(args, "encoder_tensor_model_parallel_size") > 0 ||
                             number_claim(args, "encoder_pipeline_model_parallel_size") > 0;
    if (!world || *world < model || *world / model < cp || *world % (model * cp) != 0 ||
        has_encoder) {
        return std::nullopt;
    }
    return world;
}

/// The orders that the run may have had, the likeliest first. Cores before 0.8 counted expert ranks
/// within the decoder's order, later ones in a grid of their own without cp.
std::vector<Strides> orders_of(const Grid& grid, Index world, const StatedConfig& args) {
    const Index inner = grid.tp * context_size(args);
    const Strides dp_before_pp{world / grid.pp, grid.etp};
    const Strides dp_before_pp_old{world / grid.pp, inner};
    const Strides pp_before_dp{inner, grid.etp};
    const Strides pp_before_dp_old{inner * grid.ep, inner};
    auto* const stated = find_value(args, "use_tp_pp_dp_mapping");
    if (stated == nullptr) {
        return {dp_before_pp, dp_before_pp_old, pp_before_dp, pp_before_dp_old};
    }
    return *stated == "true" ? std::vector{pp_before_dp, pp_before_dp_old}
                             : std::vector{dp_before_pp, dp_before_pp_old};
}

Coordinates place_under(const Strides& order, const Grid& grid, Index rank) {
    Coordinates place;
    place.tp = static_cast<int>(rank % grid.tp);
    place.pp = static_cast<int>(rank / order.pp % grid.pp);
    place.ep = static_cast<int>(rank / order.ep % grid.ep);
    return place;
}

/// Looks at the files that state a rank.
template <typename PlaceOf>
std::vector<RankPlace> places_of(const Grid& grid, const Ranks& ranks, const PlaceOf& place_of) {
    std::vector<RankPlace> places;
    for (const std::size_t i : indices(ranks)) {
        places.push_back(ranks[i] ? place_in(grid, place_of(i)) : RankPlace());
    }
    return places;
}

/// One process that makes all files has one number.
bool differ_between_files(const Ranks& ranks, Index world) {
    std::optional<Index> first;
    bool differs = false;
    for (const auto& rank : ranks) {
        if (rank && *rank >= world) {
            return false;
        }
        first = first ? first : rank;
        differs = differs || (rank && rank != first);
    }
    return differs;
}

}  // namespace

RankPlace place_in(const Grid& grid, const Coordinates& place) {
    RankPlace claims;
    const auto add = [&](const char* axis, int size, int rank) {
        if (size > 1) {
            claims[axis] = std::to_string(rank);
        }
    };
    add("tp", grid.tp, place.tp);
    add("pp", grid.pp, place.pp);
    add("ep", grid.ep, place.ep);
    return claims;
}

std::vector<RankPlace> places_by_rank(const Grid& grid, const StatedConfig& args,
                                      const Ranks& ranks) {
    const auto world = world_of(grid, args);
    if (!world || !differ_between_files(ranks, *world)) {
        return {};
    }
    const auto under = [&](const Strides& order) {
        return places_of(grid, ranks,
                         [&](std::size_t i) { return place_under(order, grid, *ranks[i]); });
    };
    auto named = places_of(grid, ranks, [&](std::size_t i) { return grid.places[i]; });
    const auto orders = orders_of(grid, *world, args);
    for (const Strides& order : orders) {
        if (under(order) == named) {
            return named;
        }
    }
    return under(orders.front());
}

}  // namespace shardweld::formats::megatron
