// The loops behind add_low_rank, one per instruction set; all give the same bits.
#pragma once

namespace shardweld::numeric {

struct LowRankUpdate;

using LowRankKernel = void (*)(const LowRankUpdate& update);

/// For any processor; the definition of what the other has to give.
void add_low_rank_portable(const LowRankUpdate& update);

/// AVX2 and FMA; nullptr where the processor (or the build) has none.
LowRankKernel add_low_rank_avx2();

}  // namespace shardweld::numeric
