// Which rank owns which part of the output: contiguous runs of blocks, balanced by bytes.
// Pure; knows sizes only.
#pragma once

#include <vector>

#include "shardweld/outputs/output.hpp"

namespace shardweld::plan {

/// A block is the fewest whole rows of one tensor that reach this many bytes.
inline constexpr Bytes kBlockBytes = Bytes{1} << 20U;

/// Rows (slices of dim 0) in one block of a tensor; a scalar counts as one row.
Index rows_per_block(const outputs::OutputTensor& tensor);

/// All tensor bytes of the output in file order as one line [0, tensor_bytes), headers left out.
struct OutputLine {
    std::vector<std::uint32_t> order;  ///< tensor indices in file order
    std::vector<Bytes>
        begins;  ///< line position of order[i]; begins.back() = total (one more than order)
};
OutputLine line_of(const std::vector<outputs::OutputTensor>& tensors,
                   const outputs::Placement& placement);

/// Line positions at which ranks' runs begin: n_ranks + 1 values, cuts[r]..cuts[r+1] is rank r's
/// run. Every cut is a block's begin; a tensor's begin where one is near enough to the balanced
/// place.
std::vector<Bytes> cut_runs(const std::vector<outputs::OutputTensor>& tensors,
                            const OutputLine& line, int n_ranks);

}  // namespace shardweld::plan
