// Synthetic checkpoints on disk: Megatron's legacy and torch_dist directories, verl's FSDP ones and
// DeepSpeed's, and the hub configuration that goes with them.
// Knows names, dictionaries and files; how tensors are cut is model.hpp's.
#pragma once

#include <filesystem>

#include "model.hpp"

namespace shardweld::bench {

struct Checkpoint {
    Model model;
    Grid grid;
    Values values;
    bool has_states = false;  ///< of an optimizer: fp32 masters and both moments (torch_dist)
};

/// Writes OUT/hf/config.json.
void write_hub_config(const std::filesystem::path& out, const Checkpoint& checkpoint);

/// Write OUT/source (iteration 1), `n_threads` rank files at a time; return the bytes of all
/// files. Error(target) where files exist already.
Bytes write_legacy(const std::filesystem::path& out, const Checkpoint& checkpoint,
                   unsigned n_threads);
Bytes write_torch_dist(const std::filesystem::path& out, const Checkpoint& checkpoint,
                       unsigned n_threads);

/// Writes OUT/source as verl's FSDP2 does: as many ranks as Megatron had, that each hold a cut of
/// every tensor's rows.
Bytes write_fsdp(const std::filesystem::path& out, const Checkpoint& checkpoint,
                 unsigned n_threads);

/// Writes OUT/source as DeepSpeed's ZeRO-3 does: as many ranks as Megatron had. Weights are fp32,
/// whatever the dtype, which is that of the module.
Bytes write_zero3(const std::filesystem::path& out, const Checkpoint& checkpoint,
                  unsigned n_threads);

}  // namespace shardweld::bench
