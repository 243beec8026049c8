#include "plan/ownership.hpp"

#include <algorithm>

#include "core/lists.hpp"

namespace shardweld::plan {

namespace {

// A cut moves from its balanced place by at most this part of a rank's share: busiest at most 1.05
// of the mean in all.
constexpr Bytes kSnapPart = 64;

Bytes distance(Bytes a, Bytes b) {
    return a > b ? a - b : b - a;
}

/// Where the tensor bytes of each file begin in the output space, and the output space's end.
std::vector<Bytes> file_begins(const OutputSpace& space, const outputs::Placement& placement) {
    std::vector<Bytes> begins;
    for (const std::size_t at : indices(space.order)) {
        // A file without tensors begins where the next one does.
        while (begins.size() <= placement.slots[space.order[at]].file) {
            begins.push_back(space.begins[at]);
        }
    }
    begins.resize(placement.files.size() + 1, space.begins.back());
    return begins;
}

/// The index of the interval that holds a position before the end of the output space.
std::size_t interval_of(const std::vector<Bytes>& begins, Bytes position) {
    const auto after = std::ranges::upper_bound(begins, position);
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
    Cutter(const OutputSpace& space, const outputs::Placement& placement, Bytes share,
           Bytes alignment)
        : space_(space),
          placement_(placement),
          files_(file_begins(space, placement)),
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
        const Bytes tensor = nearest(space_.begins, ideal);
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

    /// The nearest position of the same file whose offset in it is a multiple of the alignment;
    /// among strips the nearest one's begin.
    [[nodiscard]] Bytes aligned(Bytes position) const {
        if (position >= files_.back()) {
            return files_.back();
        }
        const std::size_t at = interval_of(space_.begins, position);
        if (is_strips(at)) {
            return at_strip(at, position);
        }
        const Bytes offset = offset_of(at, position);
        const Bytes rounded = (offset + alignment_ / 2) / alignment_ * alignment_;
        const std::size_t file = interval_of(files_, position);
        // Before the file's data nothing can be cut.
        const Bytes back = offset - std::min(rounded, offset);
        const Bytes there =
            position - files_[file] < back
                ? files_[file]
                : std::min(position - back + (rounded - (offset - back)), files_[file + 1]);
        return is_at(there, rounded) ? there
                                     : std::clamp(there, space_.begins[at], space_.begins[at + 1]);
    }

    [[nodiscard]] bool is_strips(std::size_t at) const { return space_.units[at].is_strip; }
    /// Where in its file a position lies that is inside tensor `order[at]`.
    [[nodiscard]] Bytes offset_of(std::size_t at, Bytes position) const {
        return placement_.slots[space_.order[at]].offset + (position - space_.begins[at]);
    }
    /// Whether output space and file go together to here; at the ends of files it does not matter.
    [[nodiscard]] bool is_at(Bytes position, Bytes offset) const {
        if (std::ranges::binary_search(files_, position)) {
            return true;
        }
        const std::size_t at = interval_of(space_.begins, position);
        return !is_strips(at) && offset_of(at, position) == offset;
    }
    [[nodiscard]] Bytes at_strip(std::size_t at, Bytes position) const {
        const Bytes strip = space_.units[at].bytes;
        const Bytes n = (position - space_.begins[at] + strip / 2) / strip;
        return std::min(space_.begins[at] + n * strip, space_.begins[at + 1]);
    }

    /// No element has two owners. Does nothing in safetensors files, where elements are aligned.
    [[nodiscard]] Bytes at_element(Bytes position) const {
        if (position >= files_.back()) {
            return files_.back();
        }
        const std::size_t at = interval_of(space_.begins, position);
        const Bytes size = is_strips(at) ? 1 : space_.units[at].bytes;
        return position - (position - space_.begins[at]) % size;
    }

    const OutputSpace& space_;
    const outputs::Placement& placement_;
    std::vector<Bytes> files_;
    Bytes reach_;
    Bytes alignment_;
};

}  // namespace

OutputSpace output_space_of(const outputs::OutputTensors& tensors,
                            const outputs::Placement& placement) {
    const auto strip_bytes = [](const outputs::OutputTensor& tensor) {
        return static_cast<Bytes>(tensor.strip) * size_of(tensor.dtype);
    };
    OutputSpace space;
    space.order.reserve(tensors.size());
    space.units.reserve(tensors.size());
    space.begins.reserve(tensors.size() + 1);
    space.begins.push_back(0);
    for (const outputs::PlacedFile& file : placement.files) {
        for (const std::uint32_t at : file.tensors) {
            const outputs::OutputTensor& tensor = tensors[at];
            if (tensor.is_made_with_last) {
                continue;
            }
            const bool has_scales = at + 1 < tensors.size() && tensors[at + 1].is_made_with_last;
            const bool is_strip = tensor.strip > 0;
            space.order.push_back(at);
            space.units.push_back(
                {is_strip ? strip_bytes(tensor) + (has_scales ? strip_bytes(tensors[at + 1]) : 0)
                          : size_of(tensor.dtype),
                 is_strip});
            space.begins.push_back(space.begins.back() + tensor.bytes() +
                                   (has_scales ? tensors[at + 1].bytes() : 0));
        }
    }
    return space;
}

std::vector<Bytes> cut_runs(const OutputSpace& space, const outputs::Placement& placement,
                            int n_ranks, Bytes alignment, std::span<const OutputRange> done) {
    const Bytes rest = space.begins.back() - total_of(done);
    const auto n = static_cast<Bytes>(n_ranks);
    const Cutter cutter(space, placement, rest / n, alignment);
    std::vector<Bytes> cuts{0};
    for (Bytes rank = 1; rank < n; ++rank) {
        const Bytes ideal = rest / n * rank + (rest % n) * rank / n;
        cuts.push_back(std::max(cutter.cut(position_outside(ideal, done)), cuts.back()));
    }
    cuts.push_back(space.begins.back());
    return cuts;
}

}  // namespace shardweld::plan
