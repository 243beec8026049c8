// Which rank owns which part of the output: contiguous runs, balanced by bytes, cut where file
// systems like it.
#pragma once

#include <vector>

#include "outputs/output.hpp"
#include "plan/output_range.hpp"

namespace shardweld::plan {

/// A page, and a block of most file systems.
inline constexpr Bytes kPageBytes = 4096;

/// All tensor bytes of the output as positions [0, tensor_bytes), headers left out: in file order,
/// but two tensors that are made together take turns, strip by strip, where the first of them lies.
struct OutputSpace {
    /// What no cut divides: an element, or a strip of two tensors that are made together.
    struct Unit {
        Bytes bytes = 0;
        bool is_strip = false;
    };
    std::vector<std::uint32_t> order;  ///< tensor indices; the second one of two is left out
    std::vector<Unit> units;           ///< of order[i]
    std::vector<Bytes>
        begins;  ///< output position of order[i]; begins.back() = total (one more than order)
};

OutputSpace output_space_of(const outputs::OutputTensors& tensors,
                            const outputs::Placement& placement);

/// Output positions at which ranks' runs begin: n_ranks + 1 values, cuts[r]..cuts[r+1] is rank r's
/// run, at most 1.05 of the mean unless elements are too large for it. A cut is a file's or an
/// aligned tensor's begin where one is near enough to the balanced place, else a multiple of
/// `alignment` (4096, or a stripe's size) in its file, so that no page or stripe has two writers;
/// of less where shares are small. It may lie inside a row, never inside an element or a
/// strip. What the united list `done` holds is not counted.
std::vector<Bytes> cut_runs(const OutputSpace& space, const outputs::Placement& placement,
                            int n_ranks, Bytes alignment = kPageBytes,
                            std::span<const OutputRange> done = {});

}  // namespace shardweld::plan
