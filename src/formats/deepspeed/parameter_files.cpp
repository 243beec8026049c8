#include "parameter_files.hpp"

#include <utility>

#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// The tensor in a file of the parameter.
Tensor tensor_in(const TorchFile& torch_file, std::string_view parameter) {
    // A ZeRO-3 run saves the tensor itself.
    const PickleValue& root = torch_file.root();
    const PickleValue* const value = root.is_mapping() ? present(root, "param") : &root;
    if (value == nullptr) {
        throw Error(ErrorCode::corrupt, "holds no tensor, nor one called param");
    }
    const auto stored = torch_file.tensor(*value);
    if (!stored) {
        refuse_value(*value);
    }
    Tensor tensor;
    tensor.name = parameter;
    tensor.dtype = stored->dtype;
    tensor.shape = stored->shape;
    tensor.pieces.push_back(piece_of(*stored));
    return tensor;
}

std::string beside(std::string_view file, std::string_view what) {
    return std::string(file.substr(0, file.rfind('/') + 1)) + std::string(what) + ".pt";
}

/// Adds a moment's file, the next of the scan's.
void add_moment(const Location& location, const std::string& file, std::string_view state,
                Catalogue& out) {
    Catalogue scan =
        scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& of_file) {
            Tensor tensor = tensor_in(torch_file, parameter_of(beside(file, "fp32")));
            state_called(state, of_file.optimizer).tensors.push_back(std::move(tensor));
        });
    Tensor& tensor = scan.optimizer.states.front().tensors.front();
    tensor.pieces.front().file = static_cast<std::uint32_t>(out.files.size());
    state_called(state, out.optimizer).tensors.push_back(std::move(tensor));
    out.files.push_back(scan.files.front());
    take_said(scan, out);
    append_all(out.ignored, std::move(scan.ignored));
}

/// A number that one file holds, or a tensor of one element.
void add_step(const Location& location, const std::string& file, Catalogue& out) {
    use_torch_file(location, file, [&](const PickleValue& root, const ScalarReader& scalars) {
        StepClaims steps;
        steps.add(&root, scalars, "the file");
        out.optimizer.step = steps.step();
    });
}

/// Parameters without moments are left to those who compare them.
void add_states(const Location& location, const std::string& file, Catalogue& out) {
    const auto is_there = [&](std::string_view state) {
        return io::is_file(location.directory / beside(file, state));
    };
    const bool has_moment = is_there(kMoment);
    if (has_moment != is_there(kSquaredMoment)) {
        throw Error(
            ErrorCode::not_found,
            "the moment " + beside(file, has_moment ? kSquaredMoment : kMoment) + " is missing",
            "copy the whole directory zero/, or " + std::string(kWeightsOnly));
    }
    if (has_moment && location.state == TakenState::all) {
        add_moment(location, beside(file, kMoment), kMoment, out);
        add_moment(location, beside(file, kSquaredMoment), kSquaredMoment, out);
    }
    add_step(location, beside(file, "step"), out);
}

}  // namespace

std::string_view parameter_of(std::string_view file) {
    if (!file.starts_with(kParameters) || !file.ends_with(kWeights)) {
        return {};
    }
    file.remove_prefix(kParameters.size());
    return file.substr(0, file.size() - kWeights.size());
}

FileScan scan_parameter(const Location& location, const std::string& file) {
    FileScan scan;
    scan.told = scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& out) {
        out.tensors.push_back(tensor_in(torch_file, parameter_of(file)));
    });
    if (location.state != TakenState::weights) {
        add_states(location, file, scan.told);
    }
    return scan;
}

}  // namespace shardweld::formats::deepspeed
