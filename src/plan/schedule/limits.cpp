// How a rank's memory is split among its buffers.
#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "plan/plan.hpp"

#include "rounds.hpp"

namespace shardweld::plan {

namespace {

constexpr Bytes kLargestRound = 32 * kMiB;
constexpr Bytes kLargestFold = 64 * kMiB;
// Rounds that one rank sends in one round of its own, at most.
constexpr Bytes kMostSent = 4;
// A buffer may begin anywhere in a disk's block, and its last page may hold little.
constexpr Bytes kEdge = 2 * kPageBytes;

/// Rounds are whole strips, whatever a cache holds.
void require_strip(Bytes part, Bytes strip, Bytes parts) {
    if (strip > part) {
        throw Error(ErrorCode::usage,
                    "the rows of the widest quantised weight need buffers of " +
                        human_bytes(strip * parts) + " a rank",
                    "raise --memory_limit, or leave that weight as it is with --quantize_ignore");
    }
}

Bytes share(Bytes bytes, double of) {
    return static_cast<Bytes>(std::ceil(static_cast<double>(bytes) * of));
}

}  // namespace

Bytes strip_buffer(const Target& target) {
    Bytes bytes = 0;
    for (std::uint32_t at = 0; at < target.n_made(); ++at) {
        bytes += buffer_bytes(target, target.strip_elements(at), at);
    }
    return bytes;
}

void note_shares(const std::vector<Target>& targets, LimitNeeds& needs) {
    needs.stored_share = 0;
    needs.is_folding = false;
    double written = 0;
    bool any = false;
    const auto raise = [](double& share, Bytes part, Bytes width) {
        share = std::max(share, static_cast<double>(part) / static_cast<double>(width));
    };
    for (const Target& target : targets) {
        const Bytes width = buffer_bytes(target, 1);
        raise(needs.stored_share, target.stored_width(), width);
        raise(needs.staged_share, staged_width(target), width);
        raise(written, size_of(target.dtype), width);
        if (!target.beside.empty()) {
            raise(written, 1, 1);  // they are no wider than as they are written
        }
        if (target.mix) {
            needs.n_strips = std::max(needs.n_strips, static_cast<Bytes>(target.mix->n_strips()));
            for (const Term& term : target.mix->terms) {
                raise(needs.stored_share, size_of(term.stored), width);
            }
        }
        if (target.strip_elements() > 0) {
            needs.strip = std::max(needs.strip, strip_buffer(target));
        }
        needs.is_folding = needs.is_folding || target.fold || !target.folded.empty();
        any = any || target.is_converted();
    }
    needs.written_share = any ? written : 0;
}

Limits split_memory(Bytes memory_limit, Bytes message_limit, const LimitNeeds& needs) {
    if (memory_limit < kLeastMemory) {
        throw Error(ErrorCode::usage, "buffers of " + human_bytes(memory_limit) + " are too small",
                    "give at least 512KiB a rank");
    }
    const bool has_edges = needs.has_digests && needs.n_ranks > 1;
    const Bytes digests = has_edges ? kDigestBlock : 0;
    // With the smallest limits a block's end comes on top.
    const Bytes rest = memory_limit - (memory_limit >= 2 * digests ? digests : 0);
    const auto others = static_cast<Bytes>(std::max(0, needs.n_ranks - 1));
    const Bytes sends =
        needs.is_lockstep ? std::min(kMostSent, needs.has_replicas ? kMostSent : others) : 0;
    const Bytes receives = needs.is_lockstep ? 1 : 0;
    const Bytes of_round = 1 + sends + receives;
    Limits limits;
    limits.digests = digests;
    limits.edges = kEdge * ((needs.is_ahead ? 2 : 1) * of_round + 1);
    // Assembled, sent and received, all twice where rounds are read ahead; converted; one or two
    // reads of two steps; for folding factors and values; for mixing sums.
    const Bytes parts = of_round * (needs.is_ahead ? 2 : 1) + (needs.written_share > 0 ? 1 : 0) +
                        (needs.staged_share > 0 ? 1 : 0) + (needs.has_replicas ? 4 : 2) +
                        (needs.is_folding ? 2 : 0) + needs.n_strips;
    const Bytes part = (rest - limits.edges) / parts;
    require_strip(part, needs.strip, parts);
    const Bytes step = std::min(needs.step, part);
    limits.step = std::max(step, needs.strip);
    limits.round = needs.is_scattered ? std::min(kLargestRound, part) : limits.step;
    limits.assembled = share(limits.round, needs.stored_share);
    limits.converted = share(limits.round, needs.written_share);
    limits.staged = share(limits.round, needs.staged_share);
    limits.scratch = 2 * step;
    limits.compare = needs.has_replicas ? limits.scratch : 0;
    limits.send = sends * limits.round;
    limits.receive = receives * limits.round;
    limits.message = message_limit == 0 ? limits.send : message_limit;
    limits.fold = needs.is_folding ? std::min(kLargestFold, 2 * part) : 0;
    limits.sums = needs.n_strips * limits.round;
    limits.ahead = needs.is_ahead ? limits.assembled + limits.send + limits.receive : 0;
    return limits;
}

Bytes Limits::total() const {
    return assembled + converted + staged + send + receive + scratch + compare + fold + sums +
           ahead + digests + edges;
}

}  // namespace shardweld::plan
