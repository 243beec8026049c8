#include "torch_dist.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "layout/patch.hpp"
#include "models/forms/kind_stacks.hpp"
#include "models/symbols.hpp"

#include "common_state.hpp"

namespace shardweld::reshape {

namespace {

using plan::TensorPiece;

constexpr const char* kRelease = "release";
/// In front of the key of a state, in its form "fully_reshardable".
constexpr std::string_view kStates = "optimizer.state.";
constexpr Index kElementsOfFile = Index{1} << 31U;

/// The directory of a run's iteration, or of a model that no run has trained: Megatron reads no
/// optimizer from `release`.
std::string directory_of(const OptimizerToWrite* optimizer) {
    if (optimizer == nullptr) {
        return kRelease;
    }
    std::string number = std::to_string(optimizer->iteration);
    number.insert(0, number.size() < 7 ? 7 - number.size() : 0, '0');
    return "iter_" + number;
}

/// Axes that count layers.
constexpr std::array<std::string_view, 5> kLayerAxes = {"l", "k", "j", "v", "m"};
constexpr std::array<std::string_view, 2> kExpertAxes = {"e", "ev"};

/// The one axis of a dim, "" if it has others too.
std::string_view axis_of(const models::Line& line, std::size_t dim) {
    const auto& dims = line.layout.dims;
    const bool is_one = dim < dims.size() && dims[dim].size() == 1;
    return is_one && dims[dim].front().segments.empty() ? dims[dim].front().name
                                                        : std::string_view();
}

/// How many leading dims count things of which each is a chunk: layers, and experts if theirs are
/// matrices.
std::size_t stacked_dims(const models::Line& line) {
    const auto is_in = [&](const auto& axes, std::size_t dim) {
        return contains(axes, axis_of(line, dim));
    };
    const std::size_t n_dims = line.layout.dims.size();
    std::size_t stacked = n_dims > 1 && is_in(kLayerAxes, 0) ? 1 : 0;
    stacked += n_dims > stacked + 2 && is_in(kExpertAxes, stacked) ? 1U : 0U;
    return stacked;
}

/// Calls emit(box) for each value of the first `stacked` dims.
void for_each_chunk(const std::vector<Index>& shape, std::size_t stacked,
                    const std::function<void(const layout::Box&)>& emit) {
    layout::Box box = layout::whole_box(shape);
    const std::size_t dims = std::min(stacked, shape.size());
    Index chunks = 1;
    for (std::size_t k = 0; k < dims; ++k) {
        chunks *= shape[k];
    }
    for (Index chunk = 0; chunk < chunks; ++chunk) {
        Index rest = chunk;
        for (std::size_t k = dims; k-- > 0;) {
            box[k] = {rest % shape[k], 1};
            rest /= shape[k];
        }
        emit(box);
    }
}

Index elements_of(const PlacedPiece& piece) {
    Index elements = 1;
    for (const layout::Range& range : piece.box) {
        elements *= range.extent;
    }
    return elements;
}

/// Chunks in order of their names go into one file after the other.
void settle_files(const std::vector<PlacedTensor>& placed, outputs::TrainingSave& save) {
    std::map<std::string, const PlacedPiece*, decltype(&natural_less)> chunks(&natural_less);
    for (const PlacedTensor& tensor : placed) {
        for (const PlacedPiece& piece : tensor.pieces) {
            chunks.emplace(plan::piece_name(piece), &piece);
        }
    }
    Index file = 0;
    Index elements = 0;
    for (const auto& [name, piece] : chunks) {
        const Index more = elements_of(*piece);
        if (elements > 0 && elements + more > kElementsOfFile) {
            ++file;
            elements = 0;
        }
        elements += more;
        save.tensors[piece->target].file =
            save.directory + "/__0_" + std::to_string(file) + ".distcp";
    }
}

std::string key_of(const PlacedPiece& piece) {
    return joined(piece.path, ".");
}

/// Which of its tensor's chunks this one is: "shard_3.7_32.64" of layers and experts, "shard_0_1"
/// of a tensor that is one chunk.
std::string shard_of(const PlacedPiece& piece, const std::vector<Index>& whole, Index chunks) {
    std::vector<std::string> at;
    std::vector<std::string> of;
    for (std::size_t k = 0; k < whole.size() && chunks > 1; ++k) {
        at.push_back(std::to_string(piece.box[k].lo));
        of.push_back(std::to_string(whole[k]));
        chunks /= whole[k];
    }
    return at.empty() ? "shard_0_1" : "shard_" + joined(at, ".") + "_" + joined(of, ".");
}

std::map<std::string, Index> chunks_of_keys(const std::vector<PlacedTensor>& placed) {
    std::map<std::string, Index> chunks;
    for (const PlacedTensor& tensor : placed) {
        for (const PlacedPiece& piece : tensor.pieces) {
            ++chunks[key_of(piece)];
        }
    }
    return chunks;
}

/// Keys of the state of the module whose weight this is; attention itself, which has no weight,
/// goes with its projection.
std::vector<std::string> states_of(const std::string& weight, const std::string& shard) {
    constexpr std::string_view kWeight = ".weight";
    if (!weight.ends_with(kWeight) || weight.starts_with(kStates)) {
        return {};
    }
    const std::string state = "._extra_state/" + shard;
    const std::string module = weight.substr(0, weight.size() - kWeight.size());
    std::vector<std::string> keys = {module + state};
    if (has_part(module, ".self_attention") && module.ends_with(".linear_proj")) {
        keys.push_back(module.substr(0, module.rfind('.')) + ".core_attention" + state);
    }
    return keys;
}

/// Modules have state beside their weights, which is none unless they compute in FP8. Loaders stop
/// where one that they ask for is missing. Which they ask for is up to the releases of
/// megatron-core and Transformer Engine, and those that they do not ask for do no harm.
void add_module_states(const std::vector<PlacedTensor>& placed, outputs::TrainingSave& save) {
    const auto chunks = chunks_of_keys(placed);
    for (const PlacedTensor& tensor : placed) {
        for (const PlacedPiece& piece : tensor.pieces) {
            const std::string key = key_of(piece);
            for (std::string& state :
                 states_of(key, shard_of(piece, tensor.whole, chunks.at(key)))) {
                save.objects[std::move(state)] = {};
            }
        }
    }
}

/// Whether experts are told from the rest, which have an optimizer of their own.
bool has_experts(const std::vector<PlacedTensor>& placed) {
    return std::ranges::any_of(
        placed, [](const PlacedTensor& tensor) { return has_part(tensor.weight, ".experts."); });
}

/// What the run's state says of the optimizer.
void add_optimizer(const std::vector<PlacedTensor>& placed, const OptimizerToWrite& optimizer,
                   outputs::PlainValue& state) {
    for (outputs::PlainValue::Entry& entry : state.entries) {
        if (entry.key == "iteration") {
            entry.value = integer(optimizer.iteration);
        }
    }
    state.entries.push_back({"optimizer", megatron_optimizer(optimizer, has_experts(placed))});
    state.entries.push_back({"opt_param_scheduler", megatron_scheduler(optimizer)});
}

/// What a loader is told of how the tensors were saved.
outputs::PlainValue common_state(const Destination& destination,
                                 const std::vector<PlacedTensor>& placed,
                                 const OptimizerToWrite* optimizer) {
    outputs::PlainValue state = state_of_release();
    std::vector<outputs::PlainValue::Entry> content = {
        {"singleton_local_shards", boolean(false)}, {"chained_optim_avoid_prefix", boolean(true)}};
    if (destination.has_separate_layers) {
        content.push_back({"non_homogeneous_layers", boolean(true)});
    }
    if (optimizer != nullptr) {
        content.push_back({"distrib_optim_sharding_type", text("fully_reshardable")});
        add_optimizer(placed, *optimizer, state);
    }
    state.entries.push_back({"content_metadata", dictionary(std::move(content))});
    return state;
}

std::string backend_text(bool has_common_object) {
    const std::string sharded = R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1)";
    return sharded + (has_common_object
                          ? "}"
                          : R"(, "common_backend": "torch", "common_backend_version": 1})");
}

/// The file that names the directory to load.
outputs::SideFile tracker_of(const OptimizerToWrite* optimizer) {
    outputs::SideFile tracker = release_tracker();
    if (optimizer != nullptr) {
        tracker.text = std::to_string(optimizer->iteration);
    }
    return tracker;
}

outputs::TrainingSave save_of(const Destination& destination,
                              const std::vector<PlacedTensor>& placed,
                              const OptimizerToWrite* optimizer) {
    outputs::TrainingSave save;
    save.is_dcp = true;
    save.directory = directory_of(optimizer);
    const auto below = [&](const char* name) { return save.directory + "/" + name; };
    const outputs::PlainValue common = common_state(destination, placed, optimizer);
    add_tensors(placed, save);
    settle_files(placed, save);
    add_module_states(placed, save);
    if (destination.has_common_object) {
        save.objects["common_state/shard_0_1"] = common;
    } else {
        save.beside[below("common.pt")] = common;
    }
    save.side_files.push_back(
        {below("metadata.json"), backend_text(destination.has_common_object)});
    save.side_files.push_back(tracker_of(optimizer));
    return save;
}

/// A layer's part of the tensor that holds all layers of its kind.
TensorPiece layer_of_stack(const models::Line& line, const models::Captures& captures,
                           const std::vector<Index>& shape, const models::Symbols& symbols) {
    const auto [at, of] = models::place_in_stack(line, captures, symbols);
    TensorPiece piece{"", {models::format(line.kind_stack->name, captures, {})}, {{at, 1}}};
    for (const layout::Range& range : layout::whole_box(shape)) {
        piece.box.push_back(range);
    }
    piece.stack = of;
    return piece;
}

}  // namespace

Arrangement torch_dist_arrangement(const Destination& destination, const models::Symbols& symbols) {
    Arrangement arrangement;
    arrangement.pieces = [symbols](const models::Line& line, const models::Captures& captures,
                                   const std::vector<Index>& shape) {
        if (line.kind_stack != nullptr) {
            return std::vector{layer_of_stack(line, captures, shape, symbols)};
        }
        const std::string name = name_of(line, captures, symbols);
        std::vector<TensorPiece> pieces;
        for_each_chunk(shape, stacked_dims(line), [&](const layout::Box& box) {
            pieces.push_back({"", {name}, box});
        });
        return pieces;
    };
    arrangement.in_state = [](const std::string& state, TensorPiece& piece) {
        SharedText& name = piece.path.own().back();
        name = std::string(kStates) + state + "." + name.text();
    };
    arrangement.lost = [](const OptimizerToWrite& optimizer, const std::vector<Parameter>&) {
        return lost_in_megatron(optimizer);
    };
    arrangement.keeps_boxes = true;
    arrangement.save = [destination](const std::vector<PlacedTensor>& placed,
                                     const OptimizerToWrite* optimizer) {
        return save_of(destination, placed, optimizer);
    };
    return arrangement;
}

}  // namespace shardweld::reshape
