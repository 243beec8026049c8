#include "folded_factors.hpp"

#include <iterator>

namespace shardweld::plan {

FoldedFactors::FoldedFactors(const outputs::Placement& placement) {
    for (const std::size_t i : indices(placement.slots)) {
        by_offset_.emplace(placement.slots[i].offset, i);
    }
}

/// Folds of single experts begin inside of a factor.
std::size_t FoldedFactors::at(Bytes offset) const {
    return std::prev(by_offset_.upper_bound(offset))->second;
}

void FoldedFactors::add(const Fold& fold, std::set<std::size_t>& found) const {
    if (fold.left) {
        found.insert(at(fold.left->offset));
    }
    found.insert(at(fold.right.offset));
    if (fold.norm != Fold::Norm::none) {
        found.insert(at(fold.magnitudes));
    }
}

std::set<std::size_t> FoldedFactors::in(const Target& target) const {
    std::set<std::size_t> found;
    if (target.fold) {
        add(*target.fold, found);
    }
    for (const FoldedPart& part : target.folded) {
        add(part.fold, found);
    }
    return found;
}

}  // namespace shardweld::plan
