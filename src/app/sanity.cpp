#include "sanity.hpp"

#include <algorithm>

#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

constexpr std::size_t kMostListed = 8;

bool is_matrix(const std::vector<Index>& shape) {
    return std::count_if(shape.begin(), shape.end(), [](Index extent) { return extent > 1; }) > 1;
}

/// A kind of oddity, and how it is told.
struct Kind {
    const char* code;
    const char* what;
    bool (*has)(const OddTensor&);
    Index (*count)(const OddTensor&);  ///< of elements; nullptr: all of them
};

constexpr Kind kKinds[] = {
    {"nan_values", "hold NaNs", [](const OddTensor& odd) { return odd.n_nan > 0; },
     [](const OddTensor& odd) { return odd.n_nan; }},
    {"inf_values", "hold infinities", [](const OddTensor& odd) { return odd.n_inf > 0; },
     [](const OddTensor& odd) { return odd.n_inf; }},
    {"all_zero", "are all zeros", [](const OddTensor& odd) { return odd.is_zero; }, nullptr},
    {"constant", "hold one value only", [](const OddTensor& odd) { return odd.is_constant; },
     nullptr},
};

}  // namespace

Sanity judge_census(const std::vector<plan::Target>& targets,
                    const std::map<std::uint32_t, numeric::Census>& census) {
    Sanity sanity{true, {}};
    for (const auto& [at, found] : census) {
        const plan::Target& target = targets[at];
        const bool is_uniform = found.is_constant && is_matrix(target.shape);
        const OddTensor odd{
            target.name, found.n_nan, found.n_inf, is_matrix(target.shape) && !found.has_nonzero,
            is_uniform && found.has_nonzero && found.n_nan == 0 && is_float(target.dtype)};
        if (odd.n_nan > 0 || odd.n_inf > 0 || odd.is_zero || odd.is_constant) {
            sanity.tensors.push_back(odd);
        }
    }
    return sanity;
}

std::vector<plan::Warning> sanity_warnings(const Sanity& sanity) {
    std::vector<plan::Warning> warnings;
    for (const Kind& kind : kKinds) {
        plan::Warning warning{kind.code, "", ""};
        std::size_t n_tensors = 0;
        for (const OddTensor& odd : sanity.tensors) {
            if (!kind.has(odd)) {
                continue;
            }
            if (n_tensors++ == 0) {
                warning.tensor = odd.name;
            }
            if (n_tensors <= kMostListed) {
                warning.text +=
                    (n_tensors == 1 ? "" : ", ") + printable(odd.name) +
                    (kind.count == nullptr ? "" : " (" + std::to_string(kind.count(odd)) + ")");
            }
        }
        if (n_tensors > 0) {
            warning.text = std::to_string(n_tensors) + " written tensor(s) " + kind.what + ": " +
                           warning.text + (n_tensors > kMostListed ? ", ..." : "");
            warnings.push_back(std::move(warning));
        }
    }
    return warnings;
}

}  // namespace shardweld::app
