// A bound target seen as a stored tensor again, under a name of another dialect.
#pragma once

#include <string>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

namespace shardweld::adapters {

/// `target` as a tensor whose pieces lie where its operands do. Error(unsupported) where these are
/// no boxes, and for a target to which something is added.
catalogue::Tensor stored_as(const plan::Target& target, std::string name);

}  // namespace shardweld::adapters
