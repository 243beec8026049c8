#include "rank_grid.hpp"

#include <utility>

#include "core/lists.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr std::size_t kMostPlaces = 1U << 16U;

/// A picture is no reason to fail: what is wrong with the files is the reader's to say.
RankGrid grid_of(const std::string& name, const RankFiles& files) {
    const Format* const format = find_format(name);
    if (format == nullptr || format->ranks == nullptr || files.paths.empty()) {
        return {};
    }
    try {
        return format->ranks(files);
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

RankGrid::RankGrid(std::vector<MeshDim> mesh, GridPlace place) {
    std::size_t n_places = 1;
    for (const MeshDim& axis : mesh) {
        n_places =
            axis.extent > 0 && static_cast<std::size_t>(axis.extent) <= kMostPlaces / n_places
                ? n_places * static_cast<std::size_t>(axis.extent)
                : kMostPlaces + 1;
        if (n_places > kMostPlaces) {
            return;
        }
    }
    axes = std::move(mesh);
    places.assign(n_places, place);
    files.assign(n_places, 0);
}

void RankGrid::set_file(std::size_t place, std::size_t file) {
    if (place < places.size()) {
        places[place] = places[place] == GridPlace::file ? GridPlace::twice : GridPlace::file;
        files[place] = static_cast<std::uint32_t>(file);
    }
}

RankGrid rank_grid(const Catalogue& catalogue) {
    return grid_of(catalogue.format,
                   {collect_list(catalogue.files, &File::path), catalogue.facts, catalogue.mesh});
}

RankGrid rank_grid(const Location& location) {
    return grid_of(location.format, {location.shard_files, {}, {}, &location});
}

}  // namespace shardweld::formats
