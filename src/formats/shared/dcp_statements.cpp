#include "dcp_statements.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/fingerprint.hpp"

#include "iteration_directories.hpp"

namespace shardweld::formats {

namespace {

/// What is known of an item beside its bytes, by its place in the file.
using ItemPlace = std::pair<Bytes, std::uint64_t>;

std::uint64_t shape_of(const catalogue::Tensor& tensor, const catalogue::Piece& piece) {
    Fingerprint shape;
    shape.add(torch_name(tensor.dtype));
    for (const layout::Axis& axis : piece.patch.axes) {
        if (axis.extent != 1) {
            shape.add(static_cast<std::uint64_t>(axis.extent));
        }
    }
    return shape.value();
}

/// Of each file, what tells it from others once its items are opened.
std::vector<std::string> likenesses(const catalogue::Catalogue& catalogue) {
    std::vector<std::vector<ItemPlace>> items(catalogue.files.size());
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        for (const catalogue::Piece& piece : tensor.pieces) {
            items[piece.file].emplace_back(piece.base, shape_of(tensor, piece));
        }
    }
    std::vector<std::string> texts;
    for (std::size_t file = 0; file < items.size(); ++file) {
        std::sort(items[file].begin(), items[file].end());
        Fingerprint all;
        all.add(catalogue.files[file].size);
        for (const auto& [base, shape] : items[file]) {
            all.add(base);
            all.add(shape);
        }
        texts.push_back(std::to_string(all.value()));
    }
    return texts;
}

}  // namespace

void add_save_name(const std::string& checkpoint_id, const std::string& index,
                   catalogue::Catalogue& out) {
    if (const auto iteration = iteration_of(checkpoint_id)) {
        out.statements.push_back({index,
                                  "the name of the directory that was saved to",
                                  {},
                                  {{"iteration", std::to_string(*iteration)}}});
    }
}

void add_likenesses(const std::string& index, catalogue::Catalogue& out) {
    const auto alike = likenesses(out);
    for (std::size_t file = 0; file < out.files.size(); ++file) {
        out.statements.push_back({out.files[file].path,
                                  "its pieces, as .metadata lists them",
                                  {},
                                  {{"index", index}},
                                  true,
                                  alike[file]});
    }
}

}  // namespace shardweld::formats
