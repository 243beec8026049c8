// What a Megatron checkpoint says beside its tensors, when it comes from no training run.
#pragma once

#include "outputs/output.hpp"
#include "outputs/training.hpp"

namespace shardweld::reshape {

/// checkpoint_version and iteration: 3.0 is that of megatron-core's names, 0 that of a beginning.
outputs::PlainValue state_of_release();

/// A dictionary with these entries.
outputs::PlainValue dictionary(std::vector<outputs::PlainValue::Entry> entries);
outputs::PlainValue boolean(bool value);
outputs::PlainValue integer(Index value);
outputs::PlainValue real(double value);
outputs::PlainValue text(std::string value);
outputs::PlainValue list(std::vector<outputs::PlainValue> items);

/// The file that names the directory `release` as the one to load.
outputs::SideFile release_tracker();

}  // namespace shardweld::reshape
