#include "aftermath.hpp"

#include <algorithm>
#include <set>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

/// The operand that holds the first element of a replica.
const plan::Operand& original_of(const plan::Target& target, const plan::Operand& replica) {
    const auto found = std::find_if(target.operands.begin(), target.operands.end(),
                                    [&](const plan::Operand& operand) {
                                        return operand.copy.dst_offset == replica.copy.dst_offset;
                                    });
    return found == target.operands.end() ? target.operands.front() : *found;
}

}  // namespace

void require_equal_replicas(const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files) {
    if (result.differences.empty()) {
        return;
    }
    const execute::Difference& first = result.differences.front();
    const plan::Target& target = plan.targets[first.target];
    const plan::Operand& replica = target.replicas[first.replica];
    std::set<std::uint32_t> tensors;
    for (const execute::Difference& difference : result.differences) {
        tensors.insert(difference.target);
    }
    throw Error(ErrorCode::mismatch,
                target.name + ": the copy in " + files[replica.file].path + " differs in " +
                    std::to_string(first.n_elements) + " elements from the one in " +
                    files[original_of(target, replica).file].path +
                    (tensors.size() > 1 ? "; so do copies of " +
                                              std::to_string(tensors.size() - 1) + " other tensors"
                                        : "") +
                    ": the ranks of the training job held different values; --replicas trust takes "
                    "the first");
}

std::vector<plan::Warning> plan_warnings(const plan::Plan& plan) {
    const Bytes unknown = plan.replica_bytes - plan.equal_bytes;
    if (plan.compared_bytes == 0 || plan.compared_bytes >= unknown) {
        return {};
    }
    return {{"replicas_sampled", "",
             "replicas that no checksum tells of amount to " + human_bytes(unknown) +
                 ": samples of about " + human_bytes(plan.compared_bytes) +
                 " are compared; --replicas verify compares all"}};
}

std::vector<publish::Asset> side_files(std::vector<publish::Asset> assets,
                                       const std::string& config_text,
                                       const outputs::Placement& placement) {
    assets.push_back({"config.json", {}, config_text});
    for (const outputs::SideFile& file : placement.side_files) {
        assets.push_back({file.name, {}, file.text});
    }
    return assets;
}

}  // namespace shardweld::app
