// Objects that distributed checkpoints keep apart from tensors, each in an archive of its own:
// which of those that are called as weights are harmless. Knows archives within files; nothing of
// what formats call their state.
#pragma once

#include <string>

#include "core/index.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

#include "file_scan.hpp"

namespace shardweld::formats {

/// Where an object lies.
struct ObjectPlace {
    std::string file;  ///< below the checkpoint's directory
    Bytes offset = 0;
    Bytes length = 0;
};

/// Megatron keeps an object among the shards as the one element of a list.
const PickleValue& only_element_of(const PickleValue& root);

/// Refuses a weight in an object that is called as none of the model's is, a head's dictionary or
/// a tensor: Error(unsupported), naming it. What cannot be looked into is let pass.
void require_no_part(const Location& location, const ObjectPlace& place, const std::string& name);

/// The same of a dictionary whose values are a checkpoint's own state, not in its training keys.
void require_no_part(const TorchFile& file, const PickleValue& state);

/// Puts the object into a row of its name with its length. It is opened where it stands among a
/// model's tensors: Error(unsupported), naming it, when it may be a weight (model_values.hpp) or
/// cannot be looked into. `name` is what it is called within the model.
void leave_aside_object(const Location& location, const ObjectPlace& place, const std::string& name,
                        IgnoredRows& ignored);

}  // namespace shardweld::formats
