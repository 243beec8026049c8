// Values of DeepSpeed's pickles that several readers need: members, numbers and shapes; and what a
// file of model states lists of parameters beside the module: the shapes behind the flat groups
// (param_shapes), and ZeRO-3's parts of frozen ones. Source: DeepSpeed 0.19.8
// deepspeed/runtime/engine.py (_get_zero_param_shapes, _get_zero_frozen_param_attributes).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/scalar_value.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

/// The value under `name` where it is neither absent nor None.
const PickleValue* present(const PickleValue& mapping, std::string_view name);

/// The elements of what lies under `name`; none where nothing does.
PickleValues elements_in(const PickleValue& mapping, std::string_view name);

/// nullopt unless it is an integer, whatever class keeps it, or an enum made of one
/// (ZeroStageEnum(2)).
std::optional<Index> integer_of(const PickleValue* value);

/// A number that layouts depend on, also of a tensor of one element; nullopt where it is absent.
/// Error(corrupt), naming `what`, where it is no whole number.
std::optional<Index> stated_integer(const PickleValue* value, const ScalarReader& scalars,
                                    const std::string& what);

/// Error(corrupt) unless a tuple or list of few numbers, none negative.
std::vector<Index> shape_of(const PickleValue& value);

/// One of DeepSpeed's files, whose root is a dictionary, and what its scan puts together.
struct ScannedFile {
    const TorchFile& file;
    const io::InputFile& input;
    const FileName& name;
    ScalarReader scalars;
    FileContent& content;
    Catalogue& out;
};
/// The scan of a file: what `add` puts there, and what the file's name and that of the archive in
/// it say.
FileScan scan_named(const Location& location, const std::string& file, const FileName& name,
                    const std::function<void(const ScannedFile&)>& add);

/// The parameters of each flat group in their order. Error(corrupt) for what is no dictionary of
/// shapes, or no list of them.
std::vector<std::vector<FlatParameter>> shapes_by_group(const PickleValue& param_shapes);

struct Frozen {
    Tensor tensor;      ///< whole shape, this rank's piece
    Bytes padding = 0;  ///< stored behind it
};

/// Every rank has a flat part of a frozen parameter, as long as the others', the last of them
/// padded; `rank` is the data-parallel one. Error(corrupt) for a part that is not flat or whose
/// shape is not given.
std::vector<Frozen> frozen_parameters(const TorchFile& file, const PickleValue& shapes,
                                      const PickleValue& fragments, Index rank);

/// Whether a file has a part of the tensor only, which lies in its place already.
bool is_fragment(const Tensor& tensor);

}  // namespace shardweld::formats::deepspeed
