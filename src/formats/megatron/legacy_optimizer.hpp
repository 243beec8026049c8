// The optimizer's states in legacy rank directories: with a distributed optimizer as the buckets of
// distrib_optim.pt, without one by numbers in model_optim_rng.pt. Neither names parameters: the
// order of the rank's own model does. Sources: megatron-core 0.16.1 and 0.19.2
// megatron/core/optimizer/{optimizer,distrib_optimizer}.py (get_parameter_state_dp_zero,
// Float16OptimizerWithFloat16Params.state_dict, ChainedOptimizer.save_parameter_state).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"
#include "formats/shared/scalar_value.hpp"

#include "dist_state.hpp"

namespace shardweld::formats::megatron {

inline constexpr const char* kDistributedOptimizerFile = "distrib_optim.pt";

/// Where a state lies in a rank's file: a buffer of an optimizer, or the position of a parameter in
/// a group; written as the tensor's name until its parameter is known.
struct StateSlot {
    Index first = 0;   ///< optimizer, or group
    Index second = 0;  ///< buffer, or position
};

/// What the optimizer in a model's file says, and its states where they lie there, under numbers
/// that LegacyOptimizer understands. Whether they do. Error(unsupported) for states that Adam has
/// not.
bool add_numbered_states(const TorchFile& file, const ScalarReader& scalars, TakenState taken,
                         Catalogue& out);

/// Adds the file of a distributed optimizer's states that lies beside a model's file. Nothing where
/// the model's file tells of no optimizer. Error(not_found) where it is absent.
void add_distributed_states(const Location& location, const std::string& model_file,
                            Catalogue& out);

/// What the scans of all files hold of an optimizer.
class LegacyOptimizer {
  public:
    /// Takes it out of the scans. Error(mismatch) where files contradict each other.
    explicit LegacyOptimizer(std::vector<StateScan>& scans);

    /// Puts it among the catalogue's, of which the shards are those of the scans in their order and
    /// the files too. Error(mismatch) where a rank's states do not fit its model.
    void join(Catalogue& out);

  private:
    struct Rank {
        std::optional<File> file;  ///< of its own; else that of the model
        std::vector<State> states;
    };
    std::vector<Rank> ranks_;
    Optimizer told_;
};

}  // namespace shardweld::formats::megatron
