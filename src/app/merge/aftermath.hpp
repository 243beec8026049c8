// What is wrong or missing after the tensors are written: replicas that differ, and the files
// beside them. Knows results, configs and assets; writes nothing itself.
#pragma once

#include <vector>

#include "shardweld/execute/run.hpp"
#include "shardweld/publish/assets.hpp"
#include "shardweld/publish/config_edits.hpp"

#include "../family/model.hpp"

namespace shardweld::app {

/// Error(mismatch) naming the first tensor and the two files whose copies differ.
void require_equal_replicas(const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files);

/// `replicas_sampled`, when only a part of the replicas will be compared.
std::vector<plan::Warning> plan_warnings(const plan::Plan& plan);

/// Config (kept true to what is written), index, tokenizer and everything else beside the weights.
/// Local.
std::vector<publish::Asset> side_files(const ModelFiles& files, const PreparedModel& prepared,
                                       const publish::Facts& facts,
                                       const outputs::Placement& placement);

}  // namespace shardweld::app
