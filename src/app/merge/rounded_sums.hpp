// What a training checkpoint keeps as a weight and a number more or less (norms as weight - 1):
// where rounding changes values, so that the way back does not give the model's.
#pragma once

#include <vector>

#include "plan/binding.hpp"

namespace shardweld::app {

struct Input;
struct Output;
struct Run;

/// Collective. A warning (`sums_rounded`) that names each of the output's tensors with values that
/// change, and how many; or that no rank sees whole. None for a model: there the sum is what the
/// framework computes with. Reads the stored elements of these tensors once more.
std::vector<Warning> rounded_sums(const Run& run, const Output& output, const Input& input);

}  // namespace shardweld::app
