#include "duplicate_names.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

using Texts = std::span<const std::string_view>;

constexpr std::uint32_t kFree = std::numeric_limits<std::uint32_t>::max();

std::optional<Duplicate> find_by_sorting(Texts texts) {
    std::vector<std::size_t> order(texts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [texts](std::size_t a, std::size_t b) {
        const int difference = texts[a].compare(texts[b]);
        return difference == 0 ? a < b : difference < 0;
    });
    std::optional<Duplicate> found;
    for (std::size_t i = 1; i < order.size(); ++i) {
        const bool is_earlier = !found || order[i] < found->second;
        if (is_earlier && texts[order[i - 1]] == texts[order[i]]) {
            found = {order[i - 1], order[i]};
        }
    }
    return found;
}

}  // namespace

std::optional<Duplicate> find_duplicate(Texts texts) {
    if (texts.size() >= kFree) {
        throw Error(ErrorCode::unsupported, "a file of more than 2^32 names");
    }
    // Open addressing: a slot holds the position of a text. About half a step more a text is usual.
    std::vector<std::uint32_t> slots(std::bit_ceil(2 * texts.size() + 1), kFree);
    std::size_t steps_left = 4 * texts.size() + 64;
    for (const std::size_t i : indices(texts)) {
        std::size_t slot = std::hash<std::string_view>()(texts[i]) & (slots.size() - 1);
        for (; slots[slot] != kFree; slot = (slot + 1) & (slots.size() - 1)) {
            if (texts[slots[slot]] == texts[i]) {
                return Duplicate{slots[slot], i};
            }
            if (steps_left-- == 0) {
                return find_by_sorting(texts);
            }
        }
        slots[slot] = static_cast<std::uint32_t>(i);
    }
    return std::nullopt;
}

void require_distinct(Texts tensors) {
    if (const auto repeated = find_duplicate(tensors)) {
        Error error(ErrorCode::corrupt, "the name occurs twice");
        error.add_context("tensor " + printable(tensors[repeated->second]));
        throw error;
    }
}

}  // namespace shardweld::formats
