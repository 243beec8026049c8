// What of a result's values looks wrong: NaNs, infinities, matrices of one value.
// Pure; knows what is normal for a model's tensors; reads nothing.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "numeric/census.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// One tensor worth a look.
struct OddTensor {
    std::string name;
    Index n_nan = 0;
    Index n_inf = 0;
    bool is_zero = false;         ///< all elements are 0
    bool is_constant = false;     ///< all have one value that is not 0
    bool is_mostly_zero = false;  ///< more than half are 0, of an adapter's factor
};

struct Sanity {
    bool is_checked = false;
    std::vector<OddTensor> tensors;  ///< in the order of the targets
};

/// What is odd about the census of some targets. NaNs and infinities are odd everywhere. All zeros
/// and one value are odd where two extents at least are larger than one: norms of ones, biases of
/// zeros and scalars are normal. So are norms of zeros, where models store their distance from one
/// (Gemma, Qwen3-Next), and exponents (f8_e8m0) that are all alike. All zeros are odd everywhere
/// among the names in `changed`: the model that was trained had something there. Trained factors of
/// an adapter hold hardly a zero: where most are, the rows of some ranks were lost.
Sanity judge_census(const std::vector<plan::Target>& targets,
                    const std::map<std::uint32_t, numeric::Census>& census,
                    const std::set<std::string>& changed = {});

/// One warning for each kind of oddity (`nan_values`, `inf_values`, `all_zero`, `constant`,
/// `mostly_zero`), which names the first tensors that have it.
std::vector<plan::Warning> sanity_warnings(const Sanity& sanity,
                                           const std::string& noun = "written tensor(s)");

/// The same of factors that are folded, and so are in no output: zeros only.
std::vector<plan::Warning> factor_warnings(const std::vector<plan::Target>& targets,
                                           const std::map<std::uint32_t, numeric::Census>& census);

}  // namespace shardweld::app
