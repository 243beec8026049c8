// Which files of weights each loader reads, and what it finds in them: of several files that lie
// beside each other loaders take others, and an index binds only some of them.
// Sources: transformers 5.24 modeling_utils (_get_resolved_checkpoint_files) and utils/hub
// (get_checkpoint_shard_files), run; vLLM 0.33 model_loader/default_loader and weight_utils, SGLang
// 0.5.23 model_loader/loader and weight_utils, TGI utils/hub and utils/weights, read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "directory.hpp"

namespace shardweld::loaders {

struct Weights {
    std::map<std::string, StoredTensor> tensors;
    bool is_whole = true;  ///< all of them can be read: what is not among them is missing
    /// What is wrong with the files themselves, or not looked at.
    std::vector<Finding> findings;
};

/// `rule`: whose findings they are.
Weights weights_for(const Directory& directory, const nlohmann::json& config, Loader loader,
                    std::string_view rule);

}  // namespace shardweld::loaders
