#include "written_once.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/names/natural_order.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

bool is_taken_as_stored(const Target& target) {
    return !target.fold && !target.mix && !target.encode && !target.decode &&
           target.folded.empty() && target.decoded.empty();
}

void require_same_form(const Target& second, const Target& first) {
    if (second.stored == first.stored && second.shape == first.shape) {
        return;
    }
    const auto text_of = [](const Target& one) {
        return safetensors_name(one.stored) + " " + shape_text(one.shape);
    };
    throw Error(ErrorCode::mismatch,
                second.name.text() + " must equal " + first.name.text() + ", but is " +
                    text_of(second) + ", not " + text_of(first),
                "if they are two, config.json has to say tie_word_embeddings false");
}

/// The second target's operands become replicas of the first's, which is written alone.
void join(std::size_t second, std::size_t first, Binding& binding) {
    Target& copy = binding.targets[second];
    Target& kept = binding.targets[first];
    require_same_form(copy, kept);
    const Bytes bytes = static_cast<Bytes>(copy.volume()) * size_of(copy.stored);
    binding.ledger.consumed -= bytes;
    binding.ledger.replica += bytes;
    copy.operands.append(copy.replicas);
    binding.same.push_back({copy.name, first, kept.replicas.size(), copy.operands.size()});
    kept.replicas.append(copy.operands);
}

/// Leaves the targets that are not `taken` in natural order, with their new places.
void drop(const std::set<std::size_t>& taken, Binding& binding) {
    std::vector<std::size_t> order;
    for (const std::size_t i : indices(binding.targets)) {
        if (!taken.contains(i)) {
            order.push_back(i);
        }
    }
    sort_naturally(order, [&](std::size_t i) { return binding.targets[i].name; });
    std::vector<std::size_t> place(binding.targets.size());
    std::vector<Target> targets;
    targets.reserve(order.size());
    for (const std::size_t at : order) {
        place[at] = targets.size();
        targets.push_back(std::move(binding.targets[at]));
    }
    std::erase_if(binding.same, [&](const SamePair& pair) { return taken.contains(pair.target); });
    for (SamePair& pair : binding.same) {
        pair.target = place[pair.target];
    }
    binding.targets = std::move(targets);
}

}  // namespace

void write_once(const std::map<std::string, std::string>& names, Binding& binding) {
    if (names.empty()) {
        return;
    }
    std::map<std::string, std::size_t> places;
    for (const std::size_t i : indices(binding.targets)) {
        places.emplace(binding.targets[i].name, i);
    }
    std::set<std::size_t> taken;
    for (const auto& [name, kept] : names) {
        auto* const second = find_value(places, name);
        if (second == nullptr || !is_taken_as_stored(binding.targets[*second])) {
            continue;
        }
        const auto [first, is_alone] = places.emplace(kept, *second);
        if (is_alone) {
            binding.targets[*second].name = kept;
        } else if (is_taken_as_stored(binding.targets[first->second])) {
            join(*second, first->second, binding);
            taken.insert(*second);
        }
    }
    drop(taken, binding);
}

}  // namespace shardweld::plan
