#include "figures.hpp"

#include <algorithm>
#include <numeric>

#include "shardweld/plan/footprint.hpp"

namespace shardweld::app {

namespace {

/// Bytes of an operand that go to elements [begin, end) of its target.
Bytes bytes_into(const plan::Target& target, const plan::Operand& operand,
                 const plan::Slice& slice) {
    Index volume = 0;
    if (slice.begin == 0 && slice.end == target.volume()) {
        volume = operand.copy.volume();
    } else {
        for (const layout::Copy& part :
             layout::restrict_dst(operand.copy, slice.begin, slice.end)) {
            volume += part.volume();
        }
    }
    return static_cast<Bytes>(volume) * size_of(target.stored);
}

/// Bytes that others send to `owner` for a part of one target.
Bytes sent_for(const plan::Plan& plan, int owner, const plan::Slice& slice) {
    const plan::Target& target = plan.targets[slice.target];
    Bytes sent = 0;
    for (const auto* operands : {&target.operands, &target.replicas}) {
        for (const plan::Operand& operand : *operands) {
            const bool is_sent = plan.reader_of(operand, target, owner) != owner;
            sent += is_sent ? bytes_into(target, operand, slice) : 0;
        }
    }
    return sent;
}

Bytes sent_to(const plan::Plan& plan, int owner) {
    const auto at = static_cast<std::size_t>(owner);
    Bytes sent = 0;
    for (const plan::Slice& slice : slices_of(plan, {plan.cuts[at], plan.cuts[at + 1]})) {
        sent += sent_for(plan, owner, slice);
    }
    return sent;
}

Index count_rounds(const plan::Plan& plan, std::size_t busiest) {
    plan::Rounds rounds =
        plan.is_lockstep ? plan::Rounds(plan) : plan::Rounds(plan, static_cast<int>(busiest));
    std::vector<plan::LineRange> ranges;
    Index n_rounds = 0;
    while (rounds.next(ranges)) {
        ++n_rounds;
    }
    return n_rounds;
}

}  // namespace

Figures figures_of(const plan::Plan& plan) {
    Figures figures;
    for (int rank = 0; rank < plan.n_ranks(); ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        figures.written.push_back(plan.cuts[at + 1] - plan.cuts[at]);
        figures.network_bytes += plan.is_lockstep ? sent_to(plan, rank) : 0;
    }
    const auto [least, busiest] =
        std::minmax_element(figures.written.begin(), figures.written.end());
    figures.least = *least;
    figures.busiest = *busiest;
    figures.mean = static_cast<double>(plan.placement.tensor_bytes) /
                   static_cast<double>(figures.written.size());
    figures.buffer_bytes = plan.limits.total();
    figures.metadata_bytes = plan::metadata_bytes(plan);
    figures.rounds =
        count_rounds(plan, static_cast<std::size_t>(busiest - figures.written.begin()));
    return figures;
}

double imbalance(const Figures& figures) {
    return figures.mean > 0 ? static_cast<double>(figures.busiest) / figures.mean : 1;
}

}  // namespace shardweld::app
