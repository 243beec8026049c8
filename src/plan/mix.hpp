// A target that is made of several checkpoints' tensors: a weighted sum, or a base and what others
// differ from it. Pure values; which bytes are a term's stands in the operands.
#pragma once

#include <tuple>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld::plan {

/// One checkpoint's part.
struct Term {
    DType stored = DType::f32;  ///< as that checkpoint holds the tensor
    Index add = 0;              ///< as Target::add
    float weight = 1;
};

/// Terms are added in their order. Order of operations: numeric/sum.hpp.
struct Mix {
    enum class Kind {
        sum,    ///< of weight * x
        deltas  ///< the first term is the base b; the others add weight * (x - b)
    };
    Kind kind = Kind::sum;
    std::vector<Term> terms;

    static constexpr auto fields = [](auto& self) { return std::tie(self.kind, self.terms); };

    /// fp32 values that are held for each element: the sum, and the base where it is needed again.
    [[nodiscard]] Index n_strips() const {
        return kind == Kind::deltas && terms.size() > 2 ? 2 : 1;
    }
};

}  // namespace shardweld::plan
