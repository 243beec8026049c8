// What trainers write last into a step, or beside it: the signs that its save has ended.
// Sources: megatron-core 0.19 dist_checkpointing/serialization.py, Megatron-LM
// training/checkpointing.py, verl 0.9.1 utils/checkpoint/*_checkpoint_manager.py, torch 2.9
// distributed/checkpoint/filesystem.py, DeepSpeed 0.18 runtime/engine.py (save_checkpoint),
// transformers 4.57 trainer.py (_save_checkpoint), accelerate 1.11 checkpointing.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"

#include "step_files.hpp"

namespace shardweld::app::watching {

/// A file beside the steps that names the last one. It is never believed alone.
struct Tracker {
    std::string file;
    std::optional<Index> iteration;  ///< not given: it names none
    Index modified_ns = 0;
};

/// What the signs of a step say.
struct Verdict {
    std::string waits_for;       ///< the sign that is not there yet; "" if none is missing
    bool is_unfinished = false;  ///< a tracker says that this step's save has not ended
    bool has_signs = false;      ///< such steps have any; else nothing but quiet files tells
    bool is_old = false;         ///< weights were written behind a sign: it is of an earlier save
};

/// Whether the save of a step has ended, by its directory's name, its files and the trackers beside
/// it. Signs and weights may be `slack_ns` apart: clocks of hosts differ. Pure.
Verdict verdict_on(const std::string& name, const StepFiles& files,
                   const std::vector<Tracker>& beside, Index slack_ns);

}  // namespace shardweld::app::watching
