#include "arrange.hpp"

#include <map>
#include <utility>

#include "layout/patch.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

#include "common_state.hpp"
#include "legacy.hpp"
#include "module_tree.hpp"
#include "optimizer.hpp"
#include "placed.hpp"
#include "torch_dist.hpp"

namespace shardweld::reshape {

namespace {

using outputs::PlainKind;
using outputs::PlainValue;
using plan::TensorPiece;

/// Settled when the step is known: the directory is called by it.
constexpr const char* kModelFile = "mp_rank_00_model_states.pt";
/// The file that stage 3 reads in place of kModelFile. It takes all weights from their states.
constexpr const char* kStage3File = "zero_pp_rank_0_mp_rank_00_model_states.pt";
constexpr const char* kParameters = "zero/";
constexpr const char* kDeepSpeed = "0.19.8";  // of DeepSpeed, whose loader compares it

std::string state_file(const std::string& parameter, const std::string& state) {
    return kParameters + parameter + "/" + (state == "param" ? "fp32" : state) + ".pt";
}

PlainValue shape_of(const std::vector<Index>& shape) {
    auto extents = collect_list<PlainValue>(shape, integer);
    return list(std::move(extents));
}

/// Shapes of the parameters that are trained, by name, group by group: the numbers in groups are
/// those of their order.
PlainValue shapes_of(const std::vector<PlacedTensor>& placed,
                     const std::vector<ParameterGroup>& groups) {
    std::map<std::string, std::vector<Index>> shapes;
    for (const PlacedTensor& tensor : placed) {
        if (!tensor.state.empty() && tensor.state != kStep) {
            shapes.emplace(tensor.weight, tensor.whole);
        }
    }
    std::vector<PlainValue> of_groups;
    for (const ParameterGroup& group : groups) {
        std::vector<PlainValue::Entry> entries;
        for (const std::string& name : group.parameters) {
            entries.push_back({name, shape_of(shapes.at(name))});
        }
        of_groups.push_back(dictionary(std::move(entries)));
    }
    return list(std::move(of_groups));
}

/// Weights that are others under a second name, such as a tied head, and those others.
PlainValue shared_of(const std::vector<PlacedTensor>& placed) {
    std::vector<PlainValue::Entry> entries;
    for (const PlacedTensor& tensor : placed) {
        const PlacedPiece& piece = tensor.pieces.front();
        if (!tensor.state.empty() || !piece.is_copy) {
            continue;
        }
        auto* const original = find_where(placed, [&](const PlacedTensor& other) {
            return other.state.empty() && !other.pieces.front().is_copy &&
                   other.whole == tensor.whole &&
                   has_part(other.pieces.front().path.back().text(), "embed");
        });
        if (original != nullptr) {
            entries.push_back({piece.path.back(), text(original->pieces.front().path.back())});
        }
    }
    return dictionary(std::move(entries));
}

/// What the engine asks a model's file for.
PlainValue engine_state(const std::vector<PlacedTensor>& placed,
                        const std::vector<ParameterGroup>& groups,
                        const OptimizerToWrite& optimizer) {
    return dictionary(
        {{"buffer_names", list({})},
         {"optimizer", {}},
         {"param_shapes", shapes_of(placed, groups)},
         {"frozen_param_shapes", {}},
         {"shared_params", shared_of(placed)},
         {"frozen_param_fragments", {}},
         {"lr_scheduler", torch_scheduler(optimizer)},
         {"data_sampler", {}},
         {"random_ltd", {}},
         {"sparse_tensor_module_names", list({})},
         {"skipped_steps", integer(0)},
         {"global_steps", integer(optimizer.iteration)},
         {"global_samples", integer(0)},
         {"dp_world_size", integer(1)},
         {"mp_world_size", integer(1)},
         {"ds_config", dictionary({})},
         {"ds_version", text(kDeepSpeed)},
         {"universal_checkpoint_info", dictionary({{"universal_checkpoint_version", real(0.2)}})}});
}

/// What all stages ask for, and what only stage 3 does.
PlainValue optimizer_state(const std::vector<ParameterGroup>& of_parameters,
                           const OptimizerToWrite& optimizer) {
    const PlainValue groups = numbered_list(of_parameters);
    PlainValue state;
    state.kind = PlainKind::numbered;
    // A whole number: stage 3 hands it to DeepSpeed's own Adam, which takes no other.
    state.items = {dictionary({{"step", integer(static_cast<std::int64_t>(optimizer.step))}})};
    return dictionary({{"dynamic_loss_scale", boolean(false)},
                       {"overflow", boolean(false)},
                       {"clip_grad", real(0)},
                       {"ds_version", text(kDeepSpeed)},
                       {"param_groups", groups},
                       {"optimizer_state_dict",
                        dictionary({{"state", std::move(state)}, {"param_groups", groups}})}});
}

outputs::TrainingSave universal_save(const std::vector<PlacedTensor>& placed,
                                     const OptimizerToWrite* optimizer) {
    if (optimizer == nullptr) {
        throw Error(ErrorCode::unsupported,
                    "a universal checkpoint is made of an optimizer's states, and weights alone "
                    "are taken",
                    "add --state all, or write the model with --to hf");
    }
    outputs::TrainingSave save;
    add_tensors(placed, save);
    const std::string step = "global_step" + std::to_string(optimizer->iteration) + "_universal";
    for (outputs::TrainingTensor& tensor : save.tensors) {
        tensor.file = step + "/" + tensor.file.text();
    }
    save.files = {step + "/" + kModelFile, step + "/" + kStage3File};
    const auto groups = torch_groups(*optimizer, parameters_of(placed));
    for (const std::string& file : save.files) {
        save.beside[file] = engine_state(placed, groups, *optimizer);
    }
    save.beside[step + "/" + kParameters + "optimizer_state.pt"] =
        optimizer_state(groups, *optimizer);
    save.side_files.push_back({"latest_universal", step});
    return save;
}

/// Whole tensors: weights in the file of the one model-parallel rank, each state in a file of its
/// own, in a directory of the parameter's name. Error(unsupported) by `save` where there are no
/// states.
Arrangement universal_arrangement(const models::Symbols& symbols) {
    Arrangement arrangement;
    arrangement.pieces = [symbols](const models::Line& line, const models::Captures& captures,
                                   const std::vector<Index>& shape) {
        return std::vector<TensorPiece>{
            {kModelFile, {"module", name_of(line, captures, symbols)}, layout::whole_box(shape)}};
    };
    arrangement.in_state = [](const std::string& state, TensorPiece& piece) {
        piece.file = state_file(piece.path.back(), state);
        piece.path = {"param"};
    };
    arrangement.step_beside = [](const PlacedPiece& moment) {
        PlacedPiece step = moment;
        const std::string& file = moment.file;
        step.file = file.substr(0, file.rfind('/') + 1) + "step.pt";
        step.path.clear();  // the file is the tensor
        return std::optional(step);
    };
    arrangement.save = universal_save;
    return arrangement;
}

}  // namespace

Arrangement arrangement_of(const Destination& destination, const models::Symbols& symbols) {
    switch (destination.form) {
        case Form::torch_dist:
            return torch_dist_arrangement(destination, symbols);
        case Form::legacy:
            return legacy_arrangement(destination, symbols);
        case Form::fsdp:
            return fsdp_arrangement(destination, symbols);
        case Form::dcp:
            return dcp_arrangement(destination, symbols);
        case Form::universal:
            return universal_arrangement(symbols);
        case Form::hf:
        case Form::same:
        case Form::like:
            break;
    }
    throw Error(ErrorCode::internal, "no form of its own is written");
}

}  // namespace shardweld::reshape
