// One file of a DeepSpeed checkpoint, read as scanned.hpp says.
// Knows the dictionaries that DeepSpeed saves; nothing of other files. Source: DeepSpeed 0.19.8
// deepspeed/runtime/engine.py (_save_checkpoint), zero/stage_1_and_2.py, zero/stage3.py and
// bf16_optimizer.py (state_dict), utils/zero_to_fp32.py.
#pragma once

#include <string>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"

#include "file_names.hpp"

namespace shardweld::formats::deepspeed {

/// Which weights of a module are wanted of a file of model states.
enum class Wanted {
    all,      ///< as they are
    rest,     ///< those that are in no flat group; of these the parameters' shapes
    buffers,  ///< what no optimizer knows
};
struct Wish {
    Wanted wanted = Wanted::all;
    bool in_fp32 = false;           ///< narrower floats, buffers apart, are to be written so
    bool names_parameters = false;  ///< else another file of its model-parallel rank does
};

/// *_model_states.pt: the module's tensors, the shapes behind flat groups, joining rules.
catalogue::Catalogue scan_model_states(const Location& location, const std::string& file,
                                       const FileName& name, const Wish& wish);

/// *_optim_states.pt: the flat partitions of fp32 weights.
catalogue::Catalogue scan_partition(const Location& location, const std::string& file,
                                    const FileName& name);

/// What the file's name and that of the archive in it say.
void state_names(const std::string& file, const FileName& name, const std::string& archive,
                 catalogue::Catalogue& out);

}  // namespace shardweld::formats::deepspeed
