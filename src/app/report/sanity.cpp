#include "sanity.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

bool is_matrix(const std::vector<Index>& shape) {
    return std::count_if(shape.begin(), shape.end(), [](Index extent) { return extent > 1; }) > 1;
}

/// A kind of oddity, and how it is told.
struct OddityKind {
    const char* code;
    const char* what;
    bool (*has)(const OddTensor&);
    Index (*count)(const OddTensor&);  ///< of elements; nullptr: all of them
};

constexpr OddityKind kKinds[] = {
    {"nan_values", "hold NaNs", [](const OddTensor& odd) { return odd.n_nan > 0; },
     [](const OddTensor& odd) { return odd.n_nan; }},
    {"inf_values", "hold infinities", [](const OddTensor& odd) { return odd.n_inf > 0; },
     [](const OddTensor& odd) { return odd.n_inf; }},
    {"all_zero", "are all zeros", [](const OddTensor& odd) { return odd.is_zero; }, nullptr},
    {"constant", "hold one value only", [](const OddTensor& odd) { return odd.is_constant; },
     nullptr},
    {"mostly_zero", "of the adapter are zeros for the most part (untrained, or saved in part)",
     [](const OddTensor& odd) { return odd.is_mostly_zero; }, nullptr},
};

bool is_factor(const std::string& name) {
    return name.find(".lora_") != std::string::npos;
}

}  // namespace

Sanity judge_census(const std::vector<plan::Target>& targets,
                    const std::map<std::uint32_t, numeric::Census>& census,
                    const std::set<std::string>& changed) {
    Sanity sanity{true, {}};
    for (const auto& [at, found] : census) {
        const plan::Target& target = targets[at];
        const bool is_uniform = found.is_constant && is_matrix(target.shape);
        const bool is_odd_zero = is_matrix(target.shape) || changed.contains(target.name);
        const OddTensor odd{
            target.name,
            found.n_nan,
            found.n_inf,
            is_odd_zero && !found.has_nonzero,
            is_uniform && found.has_nonzero && found.n_nan == 0 && is_float(target.dtype),
            is_factor(target.name) && found.has_nonzero && found.is_mostly_zero()};
        if (odd.n_nan > 0 || odd.n_inf > 0 || odd.is_zero || odd.is_constant ||
            odd.is_mostly_zero) {
            sanity.tensors.push_back(odd);
        }
    }
    return sanity;
}

std::vector<plan::Warning> sanity_warnings(const Sanity& sanity, const std::string& noun) {
    std::vector<plan::Warning> warnings;
    for (const OddityKind& kind : kKinds) {
        std::vector<std::string> tensors;
        std::string first;
        for (const OddTensor& odd : sanity.tensors) {
            if (!kind.has(odd)) {
                continue;
            }
            first = tensors.empty() ? odd.name : first;
            tensors.push_back(
                printable(odd.name) +
                (kind.count == nullptr ? "" : " (" + std::to_string(kind.count(odd)) + ")"));
        }
        if (!tensors.empty()) {
            warnings.push_back({kind.code, first,
                                std::to_string(tensors.size()) + " " + noun + " " + kind.what +
                                    ": " + listed(tensors)});
        }
    }
    return warnings;
}

std::vector<plan::Warning> factor_warnings(const std::vector<plan::Target>& targets,
                                           const std::map<std::uint32_t, numeric::Census>& census) {
    Sanity sanity = judge_census(targets, census);
    std::erase_if(sanity.tensors, [](const OddTensor& odd) {
        return !is_factor(odd.name) || !(odd.is_zero || odd.is_mostly_zero);
    });
    for (OddTensor& odd : sanity.tensors) {
        odd.n_nan = 0;
        odd.n_inf = 0;
    }
    return sanity_warnings(sanity, "folded factor(s)");
}

}  // namespace shardweld::app
