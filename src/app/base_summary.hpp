// How far a result is from the model it was trained from (--base), in a few numbers and names.
// Pure; knows outcomes of comparisons.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardweld/plan/binding.hpp"

#include "comparison.hpp"

namespace shardweld::app {

/// What a comparison with the base tells, for the report.
struct BaseSummary {
    std::string directory;
    std::size_t n_compared = 0;        ///< tensors of one shape on both sides
    std::size_t n_equal = 0;           ///< of these, bit for bit, rounded to one dtype
    double max_absolute = 0;           ///< |result - base|, over all elements
    std::string max_tensor;            ///< where it is; "" when nothing differs
    std::vector<std::string> extra;    ///< names only the result has
    std::vector<std::string> missing;  ///< names only the base has
    std::vector<std::string> shapes;   ///< names whose shapes differ
    std::vector<std::string> changed;  ///< names whose values differ
};

/// Names for which `is_aside` holds are not told of where one side lacks them.
BaseSummary summary_of(std::string directory, const Outcome& outcome,
                       const std::function<bool(const std::string&)>& is_aside);

/// One line for people.
std::string text_of(const BaseSummary& summary);

/// `equals_base`: nothing that was compared differs; `base_differs_shape`, `base_missing`,
/// `base_extra`: the base is another model, or a part of it was lost.
std::vector<plan::Warning> base_warnings(const BaseSummary& summary);

}  // namespace shardweld::app
