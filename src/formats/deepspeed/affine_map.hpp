// The affine map of AutoTP: where each strided part of a rank's parameter lies in the whole one.
// Knows one entry; nothing of which parameters it is for. Source: DeepSpeed 0.19.8
// deepspeed/checkpoint/ds_to_universal.py (affine_map).
#pragma once

#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "core/index.hpp"
#include "formats/containers/pickle.hpp"

namespace shardweld::formats::deepspeed {

/// The rule (scan.hpp) of boxes by which the part of tensor-parallel rank `rank` is joined.
/// Error(corrupt) for a malformed entry, Error(mismatch) for one of another shape.
catalogue::Tensor affine_rule(const PickleValue& entry, Index rank, const std::string& name,
                              const std::vector<Index>& local_shape);

}  // namespace shardweld::formats::deepspeed
