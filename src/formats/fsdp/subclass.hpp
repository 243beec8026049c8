// Tensors that are no plain tensors: DTensor, ShardedTensor and others of torch's wrapper classes.
// Knows how torch pickles them; their meaning is in dtensor.hpp and sharded_tensor.hpp.
// Source: torch 2.15 torch/_tensor.py (_rebuild_from_type_v2), torch/_utils.py
// (_rebuild_wrapper_subclass).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "formats/containers/pickle.hpp"

namespace shardweld::formats::fsdp {

/// A pickled wrapper: its class, its global shape and what it was built from.
struct Subclass {
    const PickleValue* type = nullptr;
    const PickleValue* dtype = nullptr;  ///< as a global
    std::vector<Index> shape;
    const PickleValue* state = nullptr;  ///< for find_attribute
};

/// `value` as a wrapper, parameters around it taken off; nullopt when it is none. Error(corrupt)
/// when it is one but malformed.
std::optional<Subclass> subclass_of(const PickleValue& value);

}  // namespace shardweld::formats::fsdp
