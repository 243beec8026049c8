#include "grid_text.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

using formats::RankGrid;
using Dims = std::vector<catalogue::MeshDim>;

// Wider grids are shown rank by rank, in rows of so many.
constexpr std::size_t kWidest = 64;

char sign_of(const RankGrid& grid, std::size_t place, const std::vector<bool>& is_copy) {
    switch (grid.places[place]) {
        case RankGrid::Place::file: {
            const std::size_t file = grid.files[place];
            return file < is_copy.size() && is_copy[file] ? '=' : '#';
        }
        case RankGrid::Place::missing:
            return 'X';
        case RankGrid::Place::twice:
            return '2';
        default:
            return '.';
    }
}

std::string name_of(const catalogue::MeshDim& dim) {
    return dim.name.empty() ? "dim" : printable(dim.name, 20);
}

/// "pp 2 x ep 4 x tp 8"
std::string heading(const Dims& dims) {
    return joined(dims, " x ", [](const catalogue::MeshDim& dim) {
        return name_of(dim) + " " + std::to_string(dim.extent);
    });
}

std::string meanings(const std::string& picture) {
    static const std::map<char, std::string> kMeanings = {{'#', "its file"},
                                                          {'=', "copies only"},
                                                          {'X', "missing"},
                                                          {'2', "two files"},
                                                          {'.', "no file"}};
    std::string text;
    for (const char sign : {'#', '=', 'X', '2', '.'}) {
        if (picture.find(sign) != std::string::npos) {
            text += (text.empty() ? "" : ", ") + std::string(1, sign) + " " + kMeanings.at(sign);
        }
    }
    return text;
}

std::size_t extent(const Dims& dims, std::size_t from_last) {
    return from_last < dims.size()
               ? static_cast<std::size_t>(dims[dims.size() - 1 - from_last].extent)
               : 1;
}

/// Rows of `width` ranks, with a blank behind every `group`; `label` names the row that begins with
/// a rank.
template <typename Label>
std::string picture(const std::string& signs, std::size_t width, std::size_t group,
                    const Label& label) {
    std::size_t longest = 0;
    for (std::size_t begin = 0; begin < signs.size(); begin += width) {
        longest = std::max(longest, label(begin).size());
    }
    std::string text;
    for (std::size_t begin = 0; begin < signs.size(); begin += width) {
        const std::string name = label(begin);
        text += "  " + name + std::string(longest - name.size(), ' ');
        for (std::size_t i = begin; i < std::min(begin + width, signs.size()); ++i) {
            text += ((i - begin) % group == 0 ? " " : "") + std::string(1, signs[i]);
        }
        text += "\n";
    }
    return text;
}

}  // namespace

std::vector<bool> copies_only(const catalogue::Catalogue& catalogue) {
    std::vector<bool> is_copy(catalogue.files.size(), false);
    std::vector<bool> has_own(catalogue.files.size(), false);
    const auto look = [&](const catalogue::Piece& piece) {
        (piece.replica == 0 ? has_own : is_copy)[piece.file] = true;
    };
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        std::for_each(tensor.pieces.begin(), tensor.pieces.end(), look);
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        look(shard.piece);
    }
    for (std::size_t file = 0; file < is_copy.size(); ++file) {
        is_copy[file] = is_copy[file] && !has_own[file];
    }
    return is_copy;
}

std::string grid_text(const RankGrid& grid, const std::vector<bool>& is_copy) {
    if (grid.places.size() < 2) {
        return "";
    }
    Dims dims;
    std::copy_if(grid.axes.begin(), grid.axes.end(), std::back_inserter(dims),
                 [](const catalogue::MeshDim& dim) { return dim.extent > 1; });
    std::string signs;
    for (std::size_t place = 0; place < grid.places.size(); ++place) {
        signs += sign_of(grid, place, is_copy);
    }
    const std::string head = "ranks: " + heading(dims) + " (" + meanings(signs) + ")\n";
    const std::size_t width = extent(dims, 0) * extent(dims, 1);
    if (dims.size() < 2 || width > kWidest) {
        constexpr std::size_t kGroup = 8;
        return head + picture(signs, std::min(kWidest, signs.size()), kGroup,
                              [](std::size_t rank) { return std::to_string(rank); });
    }
    const bool is_flat = dims.size() == 2;
    const std::size_t row = is_flat ? extent(dims, 0) : width;
    return head + picture(signs, row, extent(dims, 0), [&](std::size_t begin) {
               return name_of(dims.front()) +
                      std::to_string(begin / (signs.size() / extent(dims, dims.size() - 1)));
           });
}

}  // namespace shardweld::app
