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
    return (is_fix && line.name.text.find("moe_statics") == std::string::npos) ||
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

void add_tensors(std::vector<PlacedTensor> placed, outputs::TrainingSave& save) {
    const std::size_t n_pieces =
        add_up(placed, [](const PlacedTensor& tensor) { return tensor.pieces.size(); });
    save.tensors.reserve(n_pieces);
    for (PlacedTensor& tensor : placed) {
        for (plan::TensorPiece& piece : tensor.pieces) {
            std::string name = plan::piece_name(piece);
            outputs::TrainingTensor written{
                piece.file, std::move(piece.path), tensor.whole, {}, piece.is_plain};
            written.offsets.reserve(piece.box.size());
            for (const layout::Range& range : piece.box) {
                written.offsets.push_back(range.lo);
            }
            save.tensors.insert_or_assign(std::move(name), std::move(written));
        }
        tensor = {};
    }
}

}  // namespace shardweld::reshape
