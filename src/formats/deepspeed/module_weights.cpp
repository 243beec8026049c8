#include "module_weights.hpp"

#include "formats/shared/hints.hpp"
#include "formats/shared/master_samples.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

ElementPlace place_of(const FlatRun& run) {
    const Piece& piece = run.shard->piece;
    const Bytes first = to_bytes(piece.patch.offset + run.at, "elements");
    return {piece.file, run.shard->dtype, piece.base + first * size_of(run.shard->dtype)};
}

}  // namespace

void ModuleWeights::add(const std::string& name, const FileName& in, const Tensor& tensor) {
    const auto place = place_of_elements(tensor);
    if (place && in.kind != ZeroFile::model_part) {
        weights_.emplace(Key{name, in.kind == ZeroFile::layer, in.mp},
                         Weight{*place, tensor.shape});
    }
}

void ModuleWeights::add_master_samples(Index mp, Index n_tensor_ranks,
                                       const ModelRank::Located& master, Catalogue& out) const {
    const FlatParameter& parameter = *master.parameter;
    bool is_held = false;
    for (const bool is_layer : {false, true}) {
        const auto [begin, end] =
            weights_.equal_range({parameter.name, is_layer, is_layer ? mp % n_tensor_ranks : mp});
        for (auto at = begin; at != end; ++at) {
            const Weight& weight = at->second;
            require_equal("the shape of " + parameter.name, weight.shape,
                          out.files[weight.place.file].path, parameter.shape, "its param_shapes");
            for (const FlatRun& run : master.runs) {
                is_held = add_sample(parameter.name, {run.begin, run.end - run.begin},
                                     place_of(run), weight.place, out.samples) ||
                          is_held;
            }
        }
    }
    if (!is_held) {
        out.samples.without.push_back(parameter.name);
    }
}

}  // namespace shardweld::formats::deepspeed
