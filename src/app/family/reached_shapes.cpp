#include "reached_shapes.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using catalogue::Piece;
using catalogue::Tensor;

/// Its pieces in the order of their rows, without replicas.
std::vector<const Piece*> parts_of(const Tensor& tensor) {
    std::vector<const Piece*> parts;
    for (const Piece& piece : tensor.pieces) {
        if (piece.replica == 0 && !piece.patch.axes.empty()) {
            parts.push_back(&piece);
        }
    }
    std::ranges::sort(parts, {}, [](const Piece* piece) { return piece->patch.axes[0].lo; });
    return parts;
}

bool has_rows_of_vocabulary(const Tensor& tensor, const models::Config& config) {
    constexpr std::array<std::string_view, 4> kTables = {"embed", "lm_head", "wte", "output"};
    return tensor.shape.front() == config.integer("vocab_size").value_or(0) &&
           std::ranges::any_of(kTables, [&](std::string_view word) {
               return tensor.name.find(word) != std::string::npos;
           });
}

/// Rows are cut into parts of equal size, the last one is what is left (torch.chunk).
bool proves(const Tensor& tensor, const models::Config& config, Index n_ranks) {
    const std::vector<const Piece*> parts = parts_of(tensor);
    if (n_ranks < 1 || parts.size() != static_cast<std::size_t>(n_ranks) || tensor.shape.empty()) {
        return false;
    }
    const Index n_rows = tensor.shape.front();
    const Index part = parts.front()->patch.axes[0].extent;
    const Index last = parts.back()->patch.axes[0].extent;
    const bool is_cut_in_rows = n_ranks == 1 || parts[1]->patch.axes[0].lo == part;
    const bool could_be_more = (n_rows + n_ranks) / (n_ranks + 1) == part;
    return is_cut_in_rows && !could_be_more &&
           (last < part || has_rows_of_vocabulary(tensor, config));
}

}  // namespace

void require_all_ranks(const models::Config& config, const catalogue::Catalogue& catalogue) {
    const auto ranks = catalogue.facts.find(formats::kShardRanks);
    const auto is_proof = [&](const Tensor& tensor) {
        return proves(tensor, config, ranks->second);
    };
    if (ranks == catalogue.facts.end() || catalogue.tensors.empty() ||
        std::ranges::any_of(catalogue.tensors, is_proof)) {
        return;
    }
    const auto widest = std::ranges::max_element(
        catalogue.tensors, {}, [](const Tensor& tensor) { return tensor.pieces.size(); });
    const std::string file =
        widest->pieces.empty() ? "" : catalogue.files.at(widest->pieces.back().file).path;
    throw Error(ErrorCode::unsupported,
                "tensor " + printable(widest->name) + " reaches up to " +
                    shape_text(widest->shape) + " (file " + printable(file) +
                    "), and nothing says whether it ends there: its shards state neither the "
                    "number of ranks nor whole shapes, and no recipe does for these names",
                "if the family has a recipe, give its config.json (--hf_config) and leave --names "
                "module out; else join the shards with torch's consolidate_safetensors_files, "
                "where the files of all ranks are, and merge what it writes");
}

}  // namespace shardweld::app
