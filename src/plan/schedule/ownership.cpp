#include "shardweld/plan/ownership.hpp"

#include <algorithm>

namespace shardweld::plan {

namespace {

// A cut moves from its balanced place by at most this part of a rank's share: busiest at most 1.05
// of the mean in all.
constexpr Bytes kSnapPart = 64;

Bytes distance(Bytes a, Bytes b) {
    return a > b ? a - b : b - a;
}

/// Where the tensor bytes of each file begin on the line, and the line's end.
std::vector<Bytes> file_begins(const OutputLine& line, const outputs::Placement& placement) {
    std::vector<Bytes> begins;
    std::size_t at = 0;
    for (const outputs::PlacedFile& file : placement.files) {
        begins.push_back(line.begins[at]);
        at += file.tensors.size();
    }
    begins.push_back(line.begins.back());
    return begins;
}

/// The index of the interval that holds a position before the end of the line.
std::size_t interval_of(const std::vector<Bytes>& begins, Bytes position) {
    const auto after = std::upper_bound(begins.begin(), begins.end(), position);
    return static_cast<std::size_t>(after - begins.begin()) - 1;
}

/// What file offsets of cuts are multiples of, for ranks that write `share` bytes each.
Bytes usable_alignment(Bytes alignment, Bytes share) {
    if (alignment > share / kSnapPart) {
        alignment = kPageBytes;
    }
    while (alignment > 1 && alignment > share / kSnapPart) {
        alignment /= 2;
    }
    return alignment;
}

class Cutter {
  public:
    Cutter(const std::vector<outputs::OutputTensor>& tensors, const OutputLine& line,
           const outputs::Placement& placement, Bytes share, Bytes alignment)
        : tensors_(tensors),
          line_(line),
          placement_(placement),
          files_(file_begins(line, placement)),
          reach_(share / kSnapPart),
          alignment_(usable_alignment(alignment, share)) {}

    /// The best place near `ideal`: where a file begins, else where a tensor does that is aligned,
    /// else what is aligned.
    [[nodiscard]] Bytes cut(Bytes ideal) const {
        if (ideal >= files_.back()) {
            return files_.back();
        }
        const Bytes file = nearest(files_, ideal);
        if (distance(file, ideal) <= reach_) {
            return file;
        }
        const Bytes tensor = nearest(line_.begins, ideal);
        if (distance(tensor, ideal) <= reach_ && aligned(tensor) == tensor) {
            return tensor;
        }
        return at_element(aligned(ideal));
    }

  private:
    static Bytes nearest(const std::vector<Bytes>& begins, Bytes position) {
        const std::size_t at = interval_of(begins, position);
        return distance(begins[at], position) <= distance(begins[at + 1], position)
                   ? begins[at]
                   : begins[at + 1];
    }

    /// The nearest position of the same file whose offset in it is a multiple of the alignment.
    [[nodiscard]] Bytes aligned(Bytes position) const {
        if (position >= files_.back()) {
            return files_.back();
        }
        const std::size_t at = interval_of(files_, position);
        const Bytes data = placement_.slots[placement_.files[at].tensors.front()].offset;
        const Bytes offset = data + (position - files_[at]);
        const Bytes rounded = (offset + alignment_ / 2) / alignment_ * alignment_;
        return rounded <= data ? files_[at]
                               : std::min(files_[at] + (rounded - data), files_[at + 1]);
    }

    /// No element has two owners. Does nothing in safetensors files, where elements are aligned.
    [[nodiscard]] Bytes at_element(Bytes position) const {
        if (position >= files_.back()) {
            return files_.back();
        }
        const std::size_t at = interval_of(line_.begins, position);
        const Bytes size = size_of(tensors_[line_.order[at]].dtype);
        return position - (position - line_.begins[at]) % size;
    }

    const std::vector<outputs::OutputTensor>& tensors_;
    const OutputLine& line_;
    const outputs::Placement& placement_;
    std::vector<Bytes> files_;
    Bytes reach_;
    Bytes alignment_;
};

}  // namespace

OutputLine line_of(const std::vector<outputs::OutputTensor>& tensors,
                   const outputs::Placement& placement) {
    OutputLine line;
    line.begins.push_back(0);
    for (const outputs::PlacedFile& file : placement.files) {
        for (const std::uint32_t tensor : file.tensors) {
            line.order.push_back(tensor);
            line.begins.push_back(line.begins.back() + tensors[tensor].bytes());
        }
    }
    return line;
}

std::vector<Bytes> cut_runs(const std::vector<outputs::OutputTensor>& tensors,
                            const OutputLine& line, const outputs::Placement& placement,
                            int n_ranks, Bytes alignment, std::span<const LineRange> done) {
    const Bytes rest = line.begins.back() - total_of(done);
    const auto n = static_cast<Bytes>(n_ranks);
    const Cutter cutter(tensors, line, placement, rest / n, alignment);
    std::vector<Bytes> cuts{0};
    for (Bytes rank = 1; rank < n; ++rank) {
        const Bytes ideal = rest / n * rank + (rest % n) * rank / n;
        cuts.push_back(std::max(cutter.cut(position_outside(ideal, done)), cuts.back()));
    }
    cuts.push_back(line.begins.back());
    return cuts;
}

}  // namespace shardweld::plan
