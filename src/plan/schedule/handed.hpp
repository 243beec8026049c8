// A plan on its way from the rank that made it to those beside it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace shardweld::plan {

/// A plan whose files are of the default format, for ranks of the same program.
std::vector<std::byte> as_bytes(const Plan& plan);

/// The plan of as_bytes, for a rank: where owners read all by themselves and the output space is
/// not cut anew, it gets the operands and replicas of what it owns alone, and hash() is still the
/// whole plan's. Error(internal) where they are cut short.
Plan plan_from(std::span<const std::byte> bytes, int rank, bool may_be_cut_anew);

}  // namespace shardweld::plan
