#include "module_tree.hpp"

#include <utility>

#include "layout/patch.hpp"
#include "models/symbols.hpp"

namespace shardweld::reshape {

namespace {

using plan::TensorPiece;

/// Whether torch cuts it: it has rows, and is a parameter.
bool is_sharded(const models::Line& line, const std::vector<Index>& shape) {
    return !shape.empty() && !is_buffer(line);
}

std::string fsdp_file(Index world, Index rank) {
    return "model_world_size_" + std::to_string(world) + "_rank_" + std::to_string(rank) + ".pt";
}

std::vector<TensorPiece> fsdp_pieces(const Destination& to, const models::Line& line,
                                     const std::string& name, const std::vector<Index>& shape) {
    const Index shards = to.world / to.ddp;
    const bool is_cut = is_sharded(line, shape);
    std::vector<TensorPiece> pieces;
    for (Index rank = 0; rank < to.world; ++rank) {
        TensorPiece piece{fsdp_file(to.world, rank), {name}, layout::whole_box(shape)};
        if (is_cut) {
            piece.box[0] = rows_of_rank(shape[0], rank % shards, shards);
        }
        piece.is_plain = !is_cut;
        piece.is_copy = rank >= (is_cut ? shards : 1);
        pieces.push_back(std::move(piece));
    }
    return pieces;
}

std::string config_text(Index world) {
    return "{\n    \"FSDP_version\": 2,\n    \"world_size\": " + std::to_string(world) + "\n}";
}

outputs::DeviceMesh mesh_of(const Destination& to) {
    using Mesh = outputs::DeviceMesh;
    Mesh mesh = to.ddp == 1 ? Mesh{{"fsdp"}, {to.world}}
                            : Mesh{{"ddp", "fsdp"}, {to.ddp, to.world / to.ddp}};
    mesh.device_type = to.device;
    mesh.form = to.has_rank_meshes ? Mesh::Form::ranks : Mesh::Form::layout;
    return mesh;
}

outputs::TrainingSave fsdp_save(const Destination& to, const std::vector<PlacedTensor>& placed) {
    outputs::TrainingSave save;
    add_tensors(placed, save);
    save.mesh.push_back(mesh_of(to));
    for (Index rank = 0; rank < to.world; ++rank) {
        save.files.push_back(fsdp_file(to.world, rank));
    }
    save.side_files.push_back({"fsdp_config.json", config_text(to.world)});
    return save;
}

std::vector<TensorPiece> dcp_pieces(Index world, const models::Line& line, const std::string& name,
                                    const std::vector<Index>& shape) {
    const bool is_cut = is_sharded(line, shape);
    std::vector<TensorPiece> pieces;
    for (Index rank = 0; rank < (is_cut ? world : 1); ++rank) {
        TensorPiece piece{
            "__" + std::to_string(rank) + "_0.distcp", {"model", name}, layout::whole_box(shape)};
        if (is_cut) {
            piece.box[0] = rows_of_rank(shape[0], rank, world);
        }
        if (piece.box.empty() || piece.box[0].extent > 0 || shape[0] == 0) {
            pieces.push_back(std::move(piece));
        }
    }
    return pieces;
}

outputs::TrainingSave dcp_save(const std::vector<PlacedTensor>& placed) {
    outputs::TrainingSave save;
    save.container = outputs::TrainingSave::Container::dcp;
    add_tensors(placed, save);
    return save;
}

}  // namespace

Arrangement fsdp_arrangement(const Destination& destination, const models::Symbols& symbols) {
    Arrangement arrangement;
    arrangement.pieces = [destination, symbols](const models::Line& line,
                                                const models::Captures& captures,
                                                const std::vector<Index>& shape) {
        return fsdp_pieces(destination, line, name_of(line, captures, symbols), shape);
    };
    arrangement.save = [destination](const std::vector<PlacedTensor>& placed) {
        return fsdp_save(destination, placed);
    };
    return arrangement;
}

Arrangement dcp_arrangement(const Destination& destination, const models::Symbols& symbols) {
    Arrangement arrangement;
    arrangement.pieces = [world = destination.world, symbols](const models::Line& line,
                                                              const models::Captures& captures,
                                                              const std::vector<Index>& shape) {
        return dcp_pieces(world, line, name_of(line, captures, symbols), shape);
    };
    arrangement.has_masters_as_weights = true;
    arrangement.in_state = [](const std::string& state, TensorPiece& piece) {
        piece.path = {"optim", "state", piece.path.back(), state};
    };
    arrangement.save = dcp_save;
    return arrangement;
}

}  // namespace shardweld::reshape
