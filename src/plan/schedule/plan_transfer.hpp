// A plan on its way from the rank that made it to those beside it.
#pragma once

#include "core/codec.hpp"
#include "plan/plan.hpp"

namespace shardweld::plan {

/// Puts a plan without its format, for ranks of the same program.
void put_plan(const Plan& plan, ByteWriter& out);

/// The plan that was put. Its format is this process' own, so it is none yet (Placement::format).
/// Error(internal) where it is cut short.
Plan get_plan(ByteReader& in);

}  // namespace shardweld::plan
