// Files of torch.save as ranks of a training run write them: dictionaries of tensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "outputs/output.hpp"
#include "outputs/training.hpp"

#include "archive.hpp"

namespace shardweld::outputs::torch {

/// One of a checkpoint's files.
struct RankFile {
    std::string name;
    Index rank = 0;                      ///< of a mesh
    std::vector<std::uint32_t> tensors;  ///< of the tensor list
};

/// The value without tensors.
void put_value(PickleWriter& out, const PlainValue& value);

/// Its whole archive. Dictionaries that hold tensors are OrderedDicts, as state_dict() makes them,
/// others plain ones.
Archive rank_archive(const TrainingSave& save, const RankFile& file,
                     const std::vector<OutputTensor>& tensors);

}  // namespace shardweld::outputs::torch
