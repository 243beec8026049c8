// Which ranks of the saving job have left files: a picture of what is there, to be shown.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "catalogue_words.hpp"
#include "format.hpp"

namespace shardweld::formats {

/// The grid of ranks that saved a checkpoint, and which of their files are there.
struct RankGrid {
    enum class GridPlace {
        none,     ///< no file belongs here
        file,     ///< its file is there
        missing,  ///< its file is not there
        twice     ///< two files have this rank's name
    };
    std::vector<MeshDim> axes;         ///< outermost first; empty: files are not named by ranks
    std::vector<GridPlace> places;     ///< row-major
    std::vector<std::uint32_t> files;  ///< by place: its file, where there is one

    RankGrid() = default;
    /// All places alike. Empty where there are more than anybody can look at.
    RankGrid(std::vector<MeshDim> mesh, GridPlace place);

    /// A rank's file; a place outside of the grid is passed over.
    void set_file(std::size_t place, std::size_t file);
};

/// What a format's `ranks` are told.
struct RankFiles {
    std::vector<std::string> paths;      ///< at least one
    std::map<std::string, Index> facts;  ///< as Catalogue::facts
    std::vector<MeshDim> mesh;           ///< empty if not told
    /// Set where the checkpoint cannot be read as a whole: then there are no facts.
    const Location* location = nullptr;
};

/// The grid of a whole checkpoint. Pure.
RankGrid rank_grid(const Catalogue& catalogue);

/// The grid of one that cannot be read as a whole, by its files' names and what one of them says.
/// Local; files are as in Location::shard_files. Empty where that is not enough.
RankGrid rank_grid(const Location& location);

}  // namespace shardweld::formats
