// How a rank's memory is split among its buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/index.hpp"

namespace shardweld::plan {

struct Target;

/// Sizes of a rank's buffers in bytes; their sum stays inside --memory_limit.
struct Limits {
    Bytes step = 0;  ///< output assembled in one round by one owner; about a processor's cache
    Bytes round =
        0;  ///< the same for scattered targets, whose sources would else be read again and again
    Bytes assembled = 0;  ///< a round as it is stored
    Bytes converted = 0;  ///< a round as it is written, where that differs
    Bytes send = 0;       ///< sent by one rank in one round
    Bytes receive = 0;    ///< received by one rank in one round
    Bytes scratch = 0;    ///< one read
    Bytes compare = 0;    ///< one read of replicas
    Bytes message = 0;    ///< travels between a pair of ranks in one step
    Bytes fold = 0;       ///< factors and values of folded targets
    Bytes sums = 0;       ///< a round of mixed targets in fp32
    Bytes staged = 0;     ///< a round as it is quantised, where it is cast before
    Bytes ahead = 0;      ///< the next round, read while one is exchanged, converted and written
    Bytes digests = 0;    ///< of a block that another rank begins, for checksums
    Bytes edges = 0;      ///< lost to aligning buffers to a disk's blocks

    [[nodiscard]] Bytes total() const;
};

/// What the split of the memory depends on.
struct LimitNeeds {
    int n_ranks = 1;
    Bytes step = kMiB;          ///< as Limits::step, at most
    bool is_lockstep = false;   ///< messages are sent and received
    bool is_scattered = false;  ///< some target is scattered
    bool is_folding = false;    ///< some target is folded
    bool is_ahead = false;      ///< the next round is read meanwhile
    bool has_replicas = false;  ///< some are compared
    bool has_digests = false;   ///< checksums are computed
    Bytes n_strips = 0;         ///< as Mix::n_strips, the most of all targets
    double stored_share = 1;    ///< of a round's bytes, at most, as it is stored
    double written_share = 0;   ///< the same as it is written; 0: nothing is converted
    double staged_share = 0;    ///< the same between both
    Bytes strip = 0;            ///< of the largest strip: a round holds a whole one
};

/// Notes how much of a round's bytes, which count the widest type of each target, is what is stored
/// and what is written, how many strips its mixed targets need, and whether any is folded.
void note_shares(const std::vector<Target>& targets, LimitNeeds& needs);

/// A split of `memory_limit`; `message_limit` 0: as large as what is sent in a round. Error(usage)
/// below kLeastMemory.
Limits split_memory(Bytes memory_limit, Bytes message_limit, const LimitNeeds& needs);

/// What buffers can be made of: half of the least --memory_limit, for a comparison reads the
/// reference with the other half.
inline constexpr Bytes kLeastMemory = Bytes{512} << 10U;

/// Bytes that elements of an output of a target take in a round's buffer: the widest of the types
/// in which they are stored, summed and written.
Bytes buffer_bytes(const Target& target, Index n_elements, std::uint32_t output = 0);
/// Bytes of the elements that one written element is quantised from; 0 where they are taken as
/// stored.
Bytes staged_width(const Target& target);
/// What one strip costs, of all outputs that are made together.
Bytes strip_buffer(const Target& target);

/// Whether some operand has no run that is contiguous in source and target (a transpose).
bool is_scattered(const Target& target);

}  // namespace shardweld::plan
