// The factors A and B of a framework's adapter, by the weight that their product is added to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "core/index.hpp"
#include "models/recipe.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// A and B of one product. Shapes are [stack.., rank, in] and [stack.., out, rank].
struct FactorPair {
    std::string name;  ///< of what they are factors of
    std::uint32_t down = 0;
    std::uint32_t up = 0;
    Index rank = 0;
    Index n_in = 0;
    Index n_out = 0;
};

/// By name. Error(mismatch) for a factor without its other half, and for two that are none of one
/// matrix.
std::vector<FactorPair> pairs_of(const plan::Targets& whole, const models::LoraNames& names);

/// The product as a stored tensor.
catalogue::Tensor product_of(const FactorPair& pair, const plan::Targets& whole);

}  // namespace shardweld::app
