#include "placed.hpp"

#include <algorithm>
#include <map>

#include "core/text.hpp"
#include "models/symbols.hpp"

namespace shardweld::reshape {

layout::Range rows_of_rank(Index rows, Index rank, Index world) {
    const Index most = (rows + world - 1) / world;
    const Index lo = std::min(rank * most, rows);
    return {lo, std::min(most, rows - lo)};
}

std::string name_of(const models::Line& line, const models::Captures& captures,
                    const models::Symbols& symbols) {
    return models::format(line.name, captures,
                          [&](const std::string& symbol) { return symbols.value(symbol); });
}

bool is_buffer(const models::Line& line) {
    const bool is_fix = line.logical.ends_with(".router_fix");
    // ERNIE keeps it as a parameter.
    return (is_fix && !has_part(line.name.text, "moe_statics")) ||
           line.logical.ends_with(".layer_scalar");
}

std::vector<Parameter> parameters_of(const std::vector<PlacedTensor>& placed) {
    std::map<std::string, std::size_t, decltype(&natural_less)> found(&natural_less);
    for (const PlacedTensor& tensor : placed) {
        if (!tensor.state.empty() && tensor.state != kStep) {
            found.emplace(tensor.weight, tensor.whole.size());
        }
    }
    std::vector<Parameter> parameters;
    parameters.reserve(found.size());
    for (const auto& [name, n_dims] : found) {
        parameters.push_back({name, n_dims});
    }
    return parameters;
}

PlacedPiece placed_piece(const plan::TensorPiece& piece, bool keeps_box) {
    PlacedPiece placed{piece.file, piece.path};
    if (keeps_box) {
        placed.box = std::vector<layout::Range>(piece.box.begin(), piece.box.end());
    }
    placed.number = piece.number;
    placed.is_copy = piece.is_copy;
    placed.is_plain = piece.is_plain;
    return placed;
}

void add_tensors(std::vector<PlacedTensor> placed, outputs::TrainingSave& save) {
    const bool is_dcp = save.is_dcp;
    save.tensors.resize(
        add_up(placed, [](const PlacedTensor& tensor) { return tensor.pieces.size(); }));
    for (PlacedTensor& tensor : placed) {
        for (PlacedPiece& piece : tensor.pieces) {
            outputs::TrainingTensor& written = save.tensors.at(piece.target);
            written = {piece.file, std::move(piece.path), {}, {}, piece.is_plain};
            if (is_dcp || !save.mesh.empty()) {
                written.whole = tensor.whole;
            }
            if (is_dcp) {
                written.offsets = collect_list(piece.box, &layout::Range::lo);
            }
        }
        tensor = {};
    }
}

}  // namespace shardweld::reshape
