#include "shardweld/plan/ownership.hpp"

#include <algorithm>

namespace shardweld::plan {

namespace {

// A cut moves to a tensor's begin when that costs at most this part of a rank's share: busiest at
// most 1.05 of the mean in all.
constexpr Bytes kSnapPart = 64;

Bytes distance(Bytes a, Bytes b) {
    return a > b ? a - b : b - a;
}

/// The block begin of the tensor at [begin, end) that is nearest to `ideal`.
Bytes nearest_block(const outputs::OutputTensor& tensor, Bytes begin, Bytes end, Bytes ideal) {
    const Bytes n_rows = tensor.shape.empty() ? 1 : static_cast<Bytes>(tensor.shape.front());
    const Bytes row = n_rows == 0 ? 0 : (end - begin) / n_rows;
    const Bytes block = row * static_cast<Bytes>(rows_per_block(tensor));
    if (block == 0) {
        return begin;
    }
    const Bytes below = begin + (ideal - begin) / block * block;
    const Bytes above = std::min(below + block, end);
    return distance(below, ideal) <= distance(above, ideal) ? below : above;
}

}  // namespace

Index rows_per_block(const outputs::OutputTensor& tensor) {
    if (tensor.shape.empty() || tensor.shape.front() == 0) {
        return 1;
    }
    const Bytes row = tensor.bytes() / static_cast<Bytes>(tensor.shape.front());
    if (row == 0) {
        return tensor.shape.front();
    }
    return std::min(tensor.shape.front(), static_cast<Index>((kBlockBytes + row - 1) / row));
}

OutputLine line_of(const std::vector<outputs::OutputTensor>& tensors,
                   const outputs::Placement& placement) {
    OutputLine line;
    line.begins.push_back(0);
    for (const outputs::OutputFile& file : placement.files) {
        for (const std::uint32_t tensor : file.tensors) {
            line.order.push_back(tensor);
            line.begins.push_back(line.begins.back() + tensors[tensor].bytes());
        }
    }
    return line;
}

std::vector<Bytes> cut_runs(const std::vector<outputs::OutputTensor>& tensors,
                            const OutputLine& line, int n_ranks) {
    const Bytes total = line.begins.back();
    const auto n = static_cast<Bytes>(n_ranks);
    const Bytes share = total / n;
    std::vector<Bytes> cuts{0};
    for (Bytes rank = 1; rank < n; ++rank) {
        const Bytes ideal = share * rank + (total % n) * rank / n;
        const auto after = std::upper_bound(line.begins.begin(), line.begins.end(), ideal);
        Bytes cut = total;
        if (after != line.begins.end()) {
            const Bytes end = *after;
            const Bytes begin = *(after - 1);
            cut = distance(begin, ideal) <= distance(end, ideal) ? begin : end;
            if (distance(cut, ideal) > share / kSnapPart) {
                const auto at = static_cast<std::size_t>(after - line.begins.begin()) - 1;
                cut = nearest_block(tensors[line.order[at]], begin, end, ideal);
            }
        }
        cuts.push_back(std::max(cut, cuts.back()));
    }
    cuts.push_back(total);
    return cuts;
}

}  // namespace shardweld::plan
