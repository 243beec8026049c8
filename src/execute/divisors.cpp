#include "divisors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/codec.hpp"
#include "mpi/share.hpp"
#include "numeric/quantise.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

LargestValues::LargestValues(const plan::Plan& plan)
    : plan_(plan), largest_(plan.tensors.size(), 0) {}

void LargestValues::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    const float found = numeric::largest_magnitude(plan_.tensor(slice.tensor).dtype, bytes);
    std::uint32_t& largest = largest_[slice.tensor];
    largest = std::max(largest, std::bit_cast<std::uint32_t>(found));
}

std::vector<float> LargestValues::gather(mpi::Comm& comm) const {
    std::vector<std::uint32_t> all(largest_.size(), 0);
    for (const std::vector<std::uint32_t>& part : mpi::gather(comm, largest_)) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            all[i] = std::max(all[i], part[i]);
        }
    }
    std::vector<float> values(all.size());
    std::ranges::transform(all, values.begin(),
                           [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
    return values;
}

void set_divisors(plan::Plan& plan, const std::vector<float>& largest,
                  const std::vector<std::uint32_t>& shares) {
    std::vector<float> of_share(shares.size(), 0);
    for (std::size_t i = 0; i < shares.size(); ++i) {
        of_share[shares[i]] = std::max(of_share[shares[i]], largest[i]);
    }
    for (plan::Target& target : plan.targets) {
        if (target.encode && facts_of(target.encode->encoding).has_global) {
            plan::Encode& how = *target.encode;
            how.global = numeric::nvfp4_global(of_share[how.share], how.weight);
            std::memcpy(target.beside.back().literal.data(), &how.global, sizeof(how.global));
        }
    }
}

}  // namespace shardweld::execute
