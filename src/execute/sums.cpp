#include "sums.hpp"

#include <algorithm>

#include "numeric/sum.hpp"

namespace shardweld::execute {

namespace {

/// Floats in a buffer, which begins at a disk's block.
std::span<float> floats_in(Buffer& buffer, std::size_t n) {
    const std::span<std::byte> bytes = buffer.get(n * sizeof(float));
    return {reinterpret_cast<float*>(bytes.data()), n};
}

}  // namespace

std::span<float> Sums::strip(std::span<float> of, std::size_t i) const {
    return of.empty() ? of : of.subspan(begins_[i], begins_[i + 1] - begins_[i]);
}

void Sums::begin(const Round& round) {
    begins_.assign(1, 0);
    bool needs_base = false;
    for (const Assembled& one : round.slices) {
        const auto& mix = plan_.target_of(one.slice.tensor).mix;
        const Index n = mix ? one.slice.end - one.slice.begin : 0;
        begins_.push_back(begins_.back() + static_cast<std::size_t>(n));
        needs_base = needs_base || (mix && mix->n_strips() > 1);
    }
    sums_ = floats_in(sum_, begins_.back());
    bases_ = needs_base ? floats_in(base_, begins_.back()) : std::span<float>();
}

void Sums::add(const Round& round) {
    if (round.term == 0) {
        begin(round);
    }
    for (std::size_t i = 0; i < round.slices.size(); ++i) {
        const Assembled& one = round.slices[i];
        const auto& mix = plan_.target_of(one.slice.tensor).mix;
        if (!mix) {
            continue;
        }
        const plan::Term& term = mix->terms[round.term];
        const numeric::Addend addend{term.stored, one.stored, static_cast<float>(term.add),
                                     term.weight};
        const std::span<float> sum = strip(sums_, i);
        const std::span<float> base = strip(bases_, i);
        if (round.term == 0) {
            numeric::begin_sum(addend, sum);
            std::copy_n(sum.begin(), base.size(), base.begin());
        } else if (mix->kind == plan::Mix::Kind::sum) {
            numeric::add_product(addend, sum);
        } else {
            numeric::add_difference(addend, base.empty() ? sum : base, sum);
        }
    }
}

void Sums::finish(const Round& round, std::size_t i, std::span<std::byte> out) {
    numeric::round_sum(strip(sums_, i), plan_.tensor(round.slices[i].slice.tensor).dtype, out);
}

}  // namespace shardweld::execute
