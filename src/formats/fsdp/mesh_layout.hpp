// The layout in a pickled DeviceMesh: the sizes and strides of its dimensions.
// Knows the spellings of torch up to 2.15; what the numbers mean is the callers'.
// Source: torch/distributed/_mesh_layout.py, device_mesh.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/containers/pickle.hpp"

namespace shardweld::formats::fsdp {

/// An attribute of a mesh or of its layout; nullptr when it is absent or None. Between versions
/// attributes lost or gained a leading underscore.
const PickleValue* mesh_attribute(const PickleValue& object, const std::string& name);

bool is_sequence(const PickleValue& value);

/// One dimension: a number, or several where it was made by flattening, outermost first.
struct MeshAxis {
    const PickleValue* shape;
    const PickleValue* stride;  ///< nullptr where the layout does not tell it
};

/// The dimensions, outermost first; nullopt when the layout is of no known spelling. Error(corrupt)
/// when it is malformed.
std::optional<std::vector<MeshAxis>> mesh_axes(const PickleValue& layout);

}  // namespace shardweld::formats::fsdp
