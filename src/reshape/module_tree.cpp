#include "module_tree.hpp"

#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/text.hpp"
#include "layout/patch.hpp"
#include "models/symbols.hpp"

#include "common_state.hpp"
#include "optimizer.hpp"

namespace shardweld::reshape {

namespace {

using plan::TensorPiece;

/// Whether torch cuts it: it has rows, and is a parameter.
bool is_sharded(const models::Line& line, const std::vector<Index>& shape) {
    return !shape.empty() && !is_buffer(line);
}

/// The files of all ranks.
std::vector<SharedText> fsdp_files(Index world, const char* kind = "model") {
    std::vector<SharedText> files;
    for (Index rank = 0; rank < world; ++rank) {
        files.emplace_back(std::string(kind) + "_world_size_" + std::to_string(world) + "_rank_" +
                           std::to_string(rank) + ".pt");
    }
    return files;
}

std::vector<TensorPiece> fsdp_pieces(const Destination& to, const std::vector<SharedText>& files,
                                     const models::Line& line, SharedText name,
                                     const std::vector<Index>& shape) {
    const Index shards = to.world / to.ddp;
    const bool is_cut = is_sharded(line, shape);
    const SharedList<SharedText> path{name};
    std::vector<TensorPiece> pieces;
    for (const SharedText file : files) {
        const auto rank = static_cast<Index>(pieces.size());
        TensorPiece piece{file, path, layout::whole_box(shape)};
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
    mesh.is_of_ranks = to.has_rank_meshes;
    return mesh;
}

/// Numbers run over the groups.
std::unordered_map<SharedText, Index> numbers_of(const std::vector<ParameterGroup>& groups) {
    std::unordered_map<SharedText, Index> numbers;
    for (const ParameterGroup& group : groups) {
        for (const std::string& name : group.parameters) {
            numbers.emplace(name, std::ssize(numbers));
        }
    }
    return numbers;
}

/// What verl's loader asks for beside: the scheduler, where it is torch's. Random states belong to
/// the ranks that saved them.
outputs::PlainValue extra_state(const OptimizerToWrite& optimizer) {
    return dictionary({{"lr_scheduler", torch_scheduler(optimizer)}});
}

/// The files of an optimizer, in which numbers stand for parameters, and of what goes with it.
void add_optimizer(const Destination& to, const std::vector<Parameter>& parameters,
                   const OptimizerToWrite& optimizer, outputs::TrainingSave& save) {
    const std::vector<ParameterGroup> groups = numbered_groups(optimizer, parameters);
    const auto numbers = numbers_of(groups);
    save.numbered = "state";
    for (outputs::TrainingTensor& tensor : save.tensors) {
        // Readers count the keys of the model's file; what has no states stands behind.
        const bool is_weight = tensor.path.size() == 1;
        auto* const number = find_value(numbers, is_weight ? tensor.path[0] : tensor.path[1]);
        tensor.order = static_cast<std::int32_t>(number == nullptr ? std::ssize(numbers) : *number);
        if (!is_weight) {
            tensor.path.own()[1] = std::to_string(tensor.order);
        }
    }
    const auto add_files = [&](const char* kind, const outputs::PlainValue& value) {
        for (const SharedText file : fsdp_files(to.world, kind)) {
            save.beside[save.files.emplace_back(file)] = value;
        }
    };
    add_files("optim", dictionary({{"param_groups", numbered_list(groups)}}));
    add_files("extra_state", extra_state(optimizer));
}

outputs::TrainingSave fsdp_save(const Destination& to, std::vector<PlacedTensor> placed,
                                const OptimizerToWrite* optimizer) {
    const auto parameters = optimizer == nullptr ? std::vector<Parameter>() : parameters_of(placed);
    outputs::TrainingSave save;
    save.mesh.push_back(mesh_of(to));
    add_tensors(std::move(placed), save);
    const std::vector<SharedText> files = fsdp_files(to.world);
    save.files.assign(files.begin(), files.end());
    if (optimizer != nullptr) {
        add_optimizer(to, parameters, *optimizer, save);
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

/// Groups as torch's planner flattens them: an object for each setting.
void add_groups(const std::vector<ParameterGroup>& groups, outputs::TrainingSave& save) {
    const auto add = [&](std::size_t group, const std::string& name, outputs::PlainValue value) {
        const SharedList<SharedText> path = {"optim", "param_groups", std::to_string(group), name};
        const std::string key = joined(path, ".");
        save.bare_objects[key] = std::move(value);
        save.object_paths[key] = path;
    };
    for (const std::size_t i : indices(groups)) {
        for (const auto& [name, stated] : groups[i].settings) {
            add(i, name, plain_value(stated));
        }
        auto members = collect_list<outputs::PlainValue>(groups[i].parameters, text);
        add(i, "params", list(std::move(members)));
    }
}

outputs::TrainingSave dcp_save(std::vector<PlacedTensor> placed,
                               const OptimizerToWrite* optimizer) {
    const auto parameters = optimizer == nullptr ? std::vector<Parameter>() : parameters_of(placed);
    outputs::TrainingSave save;
    save.is_dcp = true;
    add_tensors(std::move(placed), save);
    if (optimizer != nullptr) {
        add_groups(torch_groups(*optimizer, parameters), save);
    }
    return save;
}

/// A scalar of its own in the dictionary of the parameter's states.
PlacedPiece step_piece(PlacedPiece moment) {
    moment.path.own().back() = kStep;
    moment.box = {};
    moment.is_plain = true;
    return moment;
}

}  // namespace

Arrangement fsdp_arrangement(const Destination& destination, const models::Symbols& symbols) {
    Arrangement arrangement;
    arrangement.pieces = [destination, files = fsdp_files(destination.world), symbols](
                             const models::Line& line, const models::Captures& captures,
                             const std::vector<Index>& shape) {
        return fsdp_pieces(destination, files, line, name_of(line, captures, symbols), shape);
    };
    arrangement.has_masters_as_weights = true;
    arrangement.in_state = [](const std::string& state, TensorPiece& piece) {
        const std::string& file = piece.file;
        piece.file = "optim" + file.substr(std::string_view("model").size());
        piece.path = {"state", piece.path.back(), state};
    };
    arrangement.step_beside = [](const PlacedPiece& moment) {
        return std::optional(step_piece(moment));
    };
    arrangement.lost = lost_in_one_group;
    arrangement.save = [destination](std::vector<PlacedTensor> placed,
                                     const OptimizerToWrite* optimizer) {
        return fsdp_save(destination, std::move(placed), optimizer);
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
    arrangement.step_beside = [](const PlacedPiece& moment) {
        const bool is_first = moment.box.empty() || moment.box[0].lo == 0;
        return is_first ? std::optional(step_piece(moment)) : std::nullopt;
    };
    arrangement.keeps_boxes = true;
    arrangement.save = dcp_save;
    return arrangement;
}

}  // namespace shardweld::reshape
