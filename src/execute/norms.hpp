// The norms that folded weights are divided by (DoRA), taken before anything is written.
#pragma once

#include "core/path.hpp"
#include "mpi/free_run.hpp"

#include "run_options.hpp"
#include "source.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// Collective. For every target whose fold is normalised: replaces the magnitudes in the file of
/// factors by magnitude / norm, in fp32. The norm of a row (or column) is the root of the sum of
/// its squares in fp64, added in the order of the elements, rounded to fp32. A target is read by
/// one rank, so its norms do not depend on the number of ranks. Error(unsupported) when no rank
/// sees all files of a target, Error(stopped).
void take_norms(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
                const fs::path& factors, const mpi::WhyStop& why_stop);

}  // namespace shardweld::execute
