// Looking at checkpoints and models: what they hold, what a merge would do and write, whether a
// model is whole and equal to another one.
#pragma once

#include <string>

#include "shardweld/comm.hpp"
#include "shardweld/events.hpp"
#include "shardweld/merge.hpp"

namespace shardweld {

/// What was found, on rank 0.
struct Examination {
    bool is_good = true;  ///< nothing is wrong or different; on all ranks
    std::string why;      ///< what is, in a sentence; "" where is_good
    std::string json;     ///< in full, as the command of the same name prints it with --json
};

/// Collective. What `shardweld COMMAND --json` finds:
///   inspect  what a checkpoint holds: format, parallel sizes, provenance, every stored tensor
///   plan     what merge would do on so many ranks as the option ranks says: files, rounds, memory,
///            time. Writes nothing, so that no directory is needed. Not good: what would end the
///            merge, as warnings under the option strict
///   test     whether merge would write the model in test_hf_dir; writes no tensor
///   diff     whether two models' tensors, the input's and test_hf_dir's, are equal, within atol
///            and rtol
///   verify   whether a written model keeps the format's rules, and has the checksums of its
///            merge's report: the option report, else the shardweld_report.json in its directory
/// plan and test take a request of merge, and leave aside what they have no use for. Errors as
/// merge's; a difference or fault that the command exists to find is no Error but an Examination
/// that is not good.
Examination examine(const RankGroup& comm, const std::string& command, const Request& request,
                    Events& events);

}  // namespace shardweld
