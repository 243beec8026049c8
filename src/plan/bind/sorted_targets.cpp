#include "sorted_targets.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/names/natural_order.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

void sort_targets(Binding& binding) {
    std::vector<Target>& targets = binding.targets;
    std::vector<std::size_t> order = natural_order(collect_list(targets, &Target::name));
    std::vector<std::size_t> place(order.size());
    for (const std::size_t i : indices(order)) {
        place[order[i]] = i;
    }
    for (SamePair& pair : binding.same) {
        pair.target = place[pair.target];
    }
    put_in_order(targets, std::move(order));
    const auto twice = std::ranges::adjacent_find(targets, std::ranges::equal_to(), &Target::name);
    if (twice != targets.end()) {
        throw Error(ErrorCode::mismatch, twice->name.text() + " is made by two lines of the recipe",
                    "correct the recipe");
    }
}

void spell_targets(Binding& binding,
                   const std::function<std::string(const std::string&)>& spelled) {
    if (spelled) {
        for (Target& target : binding.targets) {
            target.name = spelled(target.name);
        }
    }
    sort_targets(binding);
}

}  // namespace shardweld::plan
