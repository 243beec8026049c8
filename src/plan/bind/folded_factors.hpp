// Which factors are folded into a weight.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "core/index.hpp"
#include "outputs/output.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// The file of factors.
class FoldedFactors {
  public:
    explicit FoldedFactors(const outputs::Placement& placement);

    /// The numbers of the factors that the target's folds read.
    [[nodiscard]] std::set<std::size_t> in(const Target& target) const;

  private:
    void add(const Fold& fold, std::set<std::size_t>& found) const;
    [[nodiscard]] std::size_t at(Bytes offset) const;

    std::map<Bytes, std::size_t> by_offset_;
};

}  // namespace shardweld::plan
