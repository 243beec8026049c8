#include "rank_grid.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/text.hpp"
#include "formats/fsdp/rank_files.hpp"
#include "formats/megatron/args.hpp"
#include "formats/megatron/grid.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

using catalogue::MeshDim;
using Place = RankGrid::Place;
using Sizes = std::map<std::string, Index>;
using Paths = std::vector<std::string>;

// More cannot be looked at.
constexpr std::size_t kMostPlaces = 1U << 16U;

RankGrid grid_with(std::vector<MeshDim> axes, Place place) {
    std::size_t n_places = 1;
    for (const MeshDim& axis : axes) {
        n_places =
            axis.extent > 0 && static_cast<std::size_t>(axis.extent) <= kMostPlaces / n_places
                ? n_places * static_cast<std::size_t>(axis.extent)
                : kMostPlaces + 1;
        if (n_places > kMostPlaces) {
            return {};
        }
    }
    return {std::move(axes), std::vector<Place>(n_places, place),
            std::vector<std::uint32_t>(n_places, 0)};
}

void put(RankGrid& grid, std::size_t place, std::size_t file) {
    if (place < grid.places.size()) {
        grid.places[place] = grid.places[place] == Place::file ? Place::twice : Place::file;
        grid.files[place] = static_cast<std::uint32_t>(file);
    }
}

RankGrid legacy_grid(const Paths& files, const Sizes& stated) {
    const megatron::Grid found = megatron::arrange(files, stated);
    RankGrid grid = grid_with({{"pp", found.pp}, {"ep", found.ep}, {"tp", found.tp}}, Place::none);
    const auto place_of = [&](const catalogue::Coordinates& at) {
        return static_cast<std::size_t>((at.pp * found.ep + at.ep) * found.tp + at.tp);
    };
    if (grid.places.empty()) {
        return {};
    }
    for (std::size_t file = 0; file < files.size(); ++file) {
        if (!found.extra[file]) {
            put(grid, place_of(found.places[file]), file);
        }
    }
    // Names alone do not tell which places have none.
    if (!stated.empty()) {
        for (const auto& at : megatron::missing_places(found, grid.places.size())) {
            grid.places[place_of(at)] = Place::missing;
        }
    }
    return grid;
}

RankGrid numbered_grid(std::vector<MeshDim> axes, Place otherwise,
                       const std::vector<Index>& rank_of_file) {
    RankGrid grid = grid_with(std::move(axes), otherwise);
    for (std::size_t file = 0; file < rank_of_file.size(); ++file) {
        put(grid, static_cast<std::size_t>(rank_of_file[file]), file);
    }
    return grid;
}

RankGrid fsdp_grid(const Paths& files, const std::vector<MeshDim>& mesh) {
    std::vector<Index> ranks;
    Index world = 1;
    for (const fsdp::RankFile& name : fsdp::ranks_of(files)) {
        world = name.world;
        ranks.push_back(name.rank);
    }
    return numbered_grid(mesh.empty() ? std::vector<MeshDim>{{"rank", world}} : mesh,
                         Place::missing, ranks);
}

/// The rank in "__12_0.distcp"; nullopt of any other name.
std::optional<Index> rank_of_part(std::string_view file) {
    constexpr std::string_view kBegin = "__";
    if (!file.starts_with(kBegin) || !file.ends_with(".distcp")) {
        return std::nullopt;
    }
    file.remove_prefix(kBegin.size());
    return parse_index(file.substr(0, file.find('_')));
}

/// Any rank may have written any number of parts, also none.
RankGrid parts_grid(const Paths& files) {
    Index n_ranks = 0;
    for (const std::string& file : files) {
        n_ranks =
            std::max(n_ranks, std::min(rank_of_part(file).value_or(0), Index{kMostPlaces}) + 1);
    }
    RankGrid grid = grid_with({{"rank", n_ranks}}, Place::none);
    for (std::size_t file = 0; file < files.size() && !grid.places.empty(); ++file) {
        const auto rank = static_cast<std::size_t>(rank_of_part(files[file]).value_or(0));
        grid.places[rank] = Place::file;
        grid.files[rank] = static_cast<std::uint32_t>(file);
    }
    return grid;
}

RankGrid named_grid(const Paths& files, const std::function<Sizes()>& sizes,
                    const std::vector<MeshDim>& mesh) {
    const auto are_all = [&](auto is_one) {
        return !files.empty() && std::all_of(files.begin(), files.end(), is_one);
    };
    if (are_all([](const std::string& file) {
            return megatron::parse_rank_name(file.substr(0, file.find('/'))).has_value();
        })) {
        return legacy_grid(files, sizes());
    }
    if (are_all([](const std::string& file) { return fsdp::parse_file_name(file).has_value(); })) {
        return fsdp_grid(files, mesh);
    }
    if (are_all([](const std::string& file) { return rank_of_part(file).has_value(); })) {
        return parts_grid(files);
    }
    return {};
}

/// A picture is no reason to fail: what is wrong with the files is the reader's to say.
RankGrid grid_of(const Paths& files, const std::function<Sizes()>& sizes,
                 const std::vector<MeshDim>& mesh) {
    try {
        return named_grid(files, sizes, mesh);
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

RankGrid rank_grid(const catalogue::Catalogue& catalogue) {
    Paths files;
    for (const catalogue::File& file : catalogue.files) {
        files.push_back(file.path);
    }
    return grid_of(
        files,
        [&] {
            Sizes sizes;
            for (const char* size : {"tp", "pp", "ep", "etp"}) {
                if (const auto at = catalogue.facts.find(size); at != catalogue.facts.end()) {
                    sizes.insert(*at);
                }
            }
            return sizes;
        },
        catalogue.mesh);
}

RankGrid rank_grid(const Location& location) {
    return grid_of(
        location.shard_files,
        [&] {
            const std::string& first = location.shard_files.front();
            return megatron::stated_sizes(format_of(location).scan(location, first).claims);
        },
        {});
}

}  // namespace shardweld::formats
