// What a job asks of its plan.
#pragma once

#include <string_view>

#include "core/index.hpp"
#include "outputs/format.hpp"
#include "plan/ownership.hpp"

namespace shardweld::catalogue {
struct Records;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

/// Who reads the shards' bytes.
enum class Strategy {
    automatic,
    collective,  ///< each shard byte is read once, by one rank, and sent to its owner
    direct,      ///< owners read what they need, nothing is sent
};

/// How much of the replicas is compared.
enum class Replicas {
    automatic,  ///< nothing of those whose records state the checksum of the original's; of the
                ///< others all while they are at most a tenth of the model or 64 MiB, or where
                ///< checksums differ, else of each target samples of a twentieth of its bytes
    verify,
    trust,
};

std::string_view name_of(Strategy strategy);

/// The part of a job that its plan is made by: as it is asked for, until what is not is known of
/// ranks and checkpoints.
struct JobPlan {
    Strategy strategy = Strategy::automatic;
    Replicas replicas = Replicas::automatic;
    Bytes max_shard_size = 5'000'000'000;
    const outputs::OutputFormat* output_format = &outputs::default_format();
    Bytes memory_limit = Bytes{256} << 20U;
    Bytes message_limit = 0;
    Bytes step = kMiB;  ///< of output assembled at once, at most, so that a cache holds it
    Bytes alignment = kPageBytes;  ///< of the cuts between owners, in files
    bool digests = false;          ///< of all tensors are computed
    bool read_ahead = false;       ///< ranks have a core to spare: read the next round meanwhile
    const catalogue::Records* records = nullptr;  ///< show which replicas are equal; may be null
    int max_readers = 0;  ///< ranks that read tensor data, at most; 0: all may

    /// Whether some of `n_ranks` ranks may not read.
    [[nodiscard]] bool limits_readers(int n_ranks) const {
        return max_readers > 0 && max_readers < n_ranks;
    }
};

}  // namespace shardweld::plan
