#include "written_once.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
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
                second.name + " must equal " + first.name + ", but is " + text_of(second) +
                    ", not " + text_of(first),
                "if they are two, config.json has to say tie_word_embeddings false");
}

class OnceWriter {
  public:
    explicit OnceWriter(Binding& binding) : binding_(binding) {
        for (const std::size_t i : indices(binding.targets)) {
            places_.emplace(binding.targets[i].name, i);
        }
    }

    void write_once(const std::string& name, const std::string& kept) {
        auto* const second = find_value(places_, name);
        if (second == nullptr || !is_taken_as_stored(target(*second))) {
            return;
        }
        const auto [first, is_alone] = places_.emplace(kept, *second);
        if (is_alone) {
            target(*second).name = kept;
            return;
        }
        if (is_taken_as_stored(target(first->second))) {
            join(*second, first->second);
        }
    }

    /// Natural order, with the targets' new places.
    void finish() {
        std::vector<std::size_t> order;
        for (const std::size_t i : indices(binding_.targets)) {
            if (!taken_.contains(i)) {
                order.push_back(i);
            }
        }
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
            return natural_less(target(a).name, target(b).name);
        });
        std::vector<std::size_t> place(binding_.targets.size());
        std::vector<Target> targets;
        targets.reserve(order.size());
        for (const std::size_t at : order) {
            place[at] = targets.size();
            targets.push_back(std::move(target(at)));
        }
        std::erase_if(binding_.same,
                      [&](const SamePair& pair) { return taken_.contains(pair.target); });
        for (SamePair& pair : binding_.same) {
            pair.target = place[pair.target];
        }
        binding_.targets = std::move(targets);
    }

  private:
    Target& target(std::size_t at) { return binding_.targets[at]; }

    void join(std::size_t second, std::size_t first) {
        Target& copy = target(second);
        Target& kept = target(first);
        require_same_form(copy, kept);
        const Bytes bytes = static_cast<Bytes>(copy.volume()) * size_of(copy.stored);
        binding_.ledger.consumed -= bytes;
        binding_.ledger.replica += bytes;
        append_all(copy.operands, std::move(copy.replicas));
        binding_.same.push_back({copy.name, first, kept.replicas.size(), copy.operands.size()});
        append_all(kept.replicas, std::move(copy.operands));
        taken_.insert(second);
    }

    Binding& binding_;
    std::map<std::string, std::size_t> places_;
    std::set<std::size_t> taken_;
};

}  // namespace

void write_once(const std::map<std::string, std::string>& names, Binding& binding) {
    if (names.empty()) {
        return;
    }
    OnceWriter writer(binding);
    for (const auto& [name, kept] : names) {
        writer.write_once(name, kept);
    }
    writer.finish();
}

}  // namespace shardweld::plan
