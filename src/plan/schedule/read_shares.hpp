// Who reads what others own.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace shardweld::plan {

/// Where an operand begins in its file, in bytes.
Bytes address_of(const Target& target, const Operand& operand);

/// Plan::read_cuts of a plan that has all but them and its limits. The bytes that owners do not
/// read themselves are cut, in file order, among the readers that see them, such that all of these
/// read as much as possible the same, what they read for themselves included. An operand is read
/// by one rank. Takes time like operands, and files times groups of ranks.
std::vector<ReadCut> share_reading(const Plan& plan);

}  // namespace shardweld::plan
