#include "equal_replicas.hpp"

#include <algorithm>
#include <set>

#include "core/text.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// The operand that holds the first element of a replica.
const plan::Operand& original_of(const plan::Target& target, const plan::Operand& replica) {
    const auto found = std::find_if(target.operands.begin(), target.operands.end(),
                                    [&](const plan::Operand& operand) {
                                        return operand.term == replica.term &&
                                               operand.copy.dst_offset == replica.copy.dst_offset;
                                    });
    return found == target.operands.end() ? target.operands.front() : *found;
}

Error unequal_replicas(const execute::Result& result, const plan::Plan& plan,
                       const std::vector<catalogue::File>& files) {
    const execute::Difference& first = result.differences.front();
    const plan::Target& target = plan.targets[first.target];
    const plan::Operand& replica = target.replicas[first.replica];
    std::set<std::uint32_t> tensors;
    for (const execute::Difference& difference : result.differences) {
        tensors.insert(difference.target);
    }
    return Error(ErrorCode::mismatch,
                 "two copies of " + target.name + " differ in " +
                     counted(static_cast<std::size_t>(first.n_elements), "element") +
                     (tensors.size() > 1
                          ? ", and so do copies of " + counted(tensors.size() - 1, "other tensor")
                          : ""),
                 "the ranks of the training job held different values; --replicas trust takes the "
                 "first")
        .add_context("files " + files[original_of(target, replica).file].path + " and " +
                     files[replica.file].path);
}

}  // namespace

void require_equal_replicas(mpi::Comm& comm, const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files) {
    if (result.differences.empty()) {
        return;
    }
    // The first rank has the whole plan.
    throw Error(mpi::share(comm, 0, [&] { return unequal_replicas(result, plan, files); }));
}

std::vector<plan::Warning> sampling_warnings(const plan::Plan& plan) {
    const Bytes unknown = plan.replica_bytes - plan.equal_bytes;
    if (plan.compared_bytes == 0 || plan.compared_bytes >= unknown) {
        return {};
    }
    return {{"replicas_sampled", "",
             "replicas without checksums amount to " + human_bytes(unknown) +
                 ": samples of about " + human_bytes(plan.compared_bytes) +
                 " are compared; --replicas verify compares all"}};
}

}  // namespace shardweld::app
