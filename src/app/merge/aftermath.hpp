// What is wrong or missing after the tensors are written: replicas that differ, and the files
// beside them. Knows results, configs and assets; writes nothing itself.
#pragma once

#include <string>
#include <vector>

#include "shardweld/execute/run.hpp"
#include "shardweld/publish/assets.hpp"

namespace shardweld::app {

/// Error(mismatch) naming the first tensor and the two files whose copies differ.
void require_equal_replicas(const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files);

/// `replicas_sampled`, when only a part of the replicas will be compared.
std::vector<plan::Warning> plan_warnings(const plan::Plan& plan);

/// The model's `assets` (tokenizer and the like), its config and the index.
std::vector<publish::Asset> side_files(std::vector<publish::Asset> assets,
                                       const std::string& config_text,
                                       const outputs::Placement& placement);

}  // namespace shardweld::app
