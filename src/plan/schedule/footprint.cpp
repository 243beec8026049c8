#include "footprint.hpp"

#include <algorithm>

#include "plan/plan.hpp"

#include "rounds.hpp"

namespace shardweld::plan {

namespace {

// Rounds times ranks squared that are walked through for a forecast; about a second.
constexpr Index kWalked = Index{1} << 18U;

/// What a string or a vector holds on the heap.
template <typename Container>
Bytes held(const Container& container) {
    return container.capacity() * sizeof(typename Container::value_type);
}

Bytes held_by(const Target& target) {
    return target.name.held_bytes() + target.source.held_bytes() + target.file.held_bytes() +
           target.literal.held_bytes() + target.shape.held_bytes() + target.operands.held_bytes() +
           target.replicas.held_bytes() + target.logical_patches.held_bytes() +
           target.beside.held_bytes() + target.zeros.held_bytes() +
           (target.mix ? sizeof(Mix) + held(target.mix->terms) : Bytes{0}) +
           (target.fold ? sizeof(Fold) + held(target.fold->rows) : 0) + target.folded.held_bytes() +
           target.decoded.held_bytes() + (target.encode ? sizeof(Encode) : 0) +
           (target.decode ? sizeof(Decode) : 0);
}

/// The bytes of one rank's buffers where rounds send and receive so much at most.
Bytes buffers_with(const Plan& plan, Bytes sent, Bytes received) {
    const Limits& limits = plan.limits;
    Bytes largest = 0;
    for (std::size_t rank = 0; rank + 1 < plan.cuts.size(); ++rank) {
        largest = std::max(largest, plan.cuts[rank + 1] - plan.cuts[rank]);
    }
    // What a rank assembles at once is no more than its part, however large a round may be; stored
    // elements may be wider than written ones.
    constexpr Bytes kWidest = 8;
    const Bytes of_round = std::min(limits.assembled, kWidest * largest) + sent + received;
    return of_round + (limits.ahead > 0 ? of_round : 0) +
           std::min(limits.converted, kWidest * largest) + limits.staged + limits.scratch +
           limits.compare + limits.fold + std::min(limits.sums, kWidest * largest) +
           limits.digests + limits.edges;
}

}  // namespace

Bytes most_buffers(const Plan& plan) {
    return buffers_with(plan, plan.limits.send, plan.limits.receive);
}

Bytes used_buffers(const Plan& plan) {
    if (!plan.is_lockstep) {
        return buffers_with(plan, 0, 0);
    }
    Rounds rounds(plan);
    std::vector<OutputRange> ranges;
    const auto n_ranks = static_cast<Index>(plan.n_ranks());
    Index left = kWalked / n_ranks / n_ranks;
    while (left-- > 0 && rounds.next(ranges)) {
    }
    return left < 0 ? most_buffers(plan)
                    : buffers_with(plan, rounds.most().sent, rounds.most().received);
}

Bytes writing_buffers(const Plan& plan) {
    const Limits& limits = plan.limits;
    return limits.assembled + limits.converted + limits.staged + limits.fold + limits.digests;
}

Bytes metadata_bytes(const Plan& plan) {
    // What the list of targets has room for besides is never touched.
    Bytes bytes = plan.targets.size() * sizeof(Target) + held(plan.tensors) +
                  held(plan.space.order) + held(plan.space.begins) + held(plan.placement.slots) +
                  held(plan.cuts) + held(plan.readers) + held(plan.read_cuts) +
                  held(plan.sample_every);
    for (const Target& target : plan.targets) {
        bytes += held_by(target);
    }
    for (const outputs::PlacedFile& file : plan.placement.files) {
        bytes += held(file.header) + held(file.tensors);
    }
    constexpr Bytes kBitsOfByte = 8;
    for (const std::vector<bool>& sees : plan.visibility.group_sees) {
        bytes += sees.capacity() / kBitsOfByte;
    }
    return bytes;
}

}  // namespace shardweld::plan
