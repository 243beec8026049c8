#include "tied.hpp"

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
    auto* const found = find_where(target.operands, [&](const plan::Operand& operand) {
        return operand.term == replica.term && operand.copy.dst_offset == replica.copy.dst_offset;
    });
    return found == nullptr ? target.operands.front() : *found;
}

/// Masters that do not round to their weights belong to others, or the save is of two steps.
Error unproved_master(const execute::Difference& first, const plan::Target& target,
                      std::size_t n_others, const std::string& doubt) {
    return {
        ErrorCode::mismatch,
        "the optimizer's fp32 master of " + target.name.text() +
            " does not round to the stored weight in " + counted(first.n_elements, "element") +
            (n_others > 0 ? ", nor do those of " + counted(n_others, "other tensor")
                          : "; all others do") +
            (doubt.empty() ? "" : ": " + doubt),
        "the weights themselves are whole: take them alone with --state weights (DeepSpeed's with "
        "--weights model, too), or give a save whose weights and optimizer are of one step"};
}

Error unequal_replicas(const execute::Result& result, const plan::Plan& plan,
                       const std::vector<catalogue::File>& files, const std::string& doubt) {
    const execute::Difference& first = result.differences.front();
    const plan::Target& target = plan.targets[first.target];
    const plan::Operand& replica = target.replicas[first.replica];
    const std::size_t n_others =
        collect_set(result.differences, &execute::Difference::target).size() - 1;
    Error error =
        replica.own_type
            ? unproved_master(first, target, n_others, doubt)
            : Error(ErrorCode::mismatch,
                    "two copies of " + target.name.text() + " differ in " +
                        counted(first.n_elements, "element") +
                        (n_others > 0 ? ", and so do copies of " + counted(n_others, "other tensor")
                                      : ""),
                    "the ranks of the training job held different values; --replicas trust takes "
                    "the first");
    return error.add_context("files " + files[original_of(target, replica).file].path + " and " +
                             files[replica.file].path);
}

std::vector<Untied> untied_of(mpi::Comm& comm, const plan::Binding& binding,
                              const execute::SourceFiles& source,
                              const plan::Visibility& visibility, const plan::JobPlan& choice) {
    plan::Targets targets;
    for (const plan::SamePair& pair : binding.same) {
        plan::Target target = binding.targets[pair.target];
        const auto first =
            target.replicas.begin() + static_cast<std::ptrdiff_t>(pair.first_replica);
        target.replicas =
            std::vector<plan::Operand>(first, first + static_cast<std::ptrdiff_t>(pair.count));
        targets.push_back(std::move(target));
    }
    plan::JobPlan all = choice;
    all.replicas = plan::Replicas::verify;
    const auto plan = mpi::collectively_get(
        comm, [&] { return plan::make_plan(std::move(targets), *source.files, visibility, all); });
    execute::RunOptions options;
    options.write = false;
    const execute::Result result = execute::run(comm, plan, source, fs::path(), options);
    std::vector<Untied> untied;
    for (const std::size_t i : indices(binding.same)) {
        Untied one{binding.same[i].stored_name, plan.targets[i].name, 0, binding.same[i].why};
        for (const execute::Difference& difference : result.differences) {
            one.n_elements += difference.target == i ? difference.n_elements : 0;
        }
        if (one.n_elements > 0) {
            untied.push_back(std::move(one));
        }
    }
    return untied;
}

/// Takes the copies of every `same` pair out of the binding's replicas: they are known to be equal.
void drop_copies(plan::Binding& binding) {
    // From the last on: a target's later pairs have later replicas.
    for (auto pair = binding.same.rbegin(); pair != binding.same.rend(); ++pair) {
        binding.targets[pair->target].replicas.change([&](std::vector<plan::Operand>& replicas) {
            const auto first = replicas.begin() + static_cast<std::ptrdiff_t>(pair->first_replica);
            replicas.erase(first, first + static_cast<std::ptrdiff_t>(pair->count));
        });
    }
}

}  // namespace

std::vector<Untied> compare_same(mpi::Comm& comm, plan::Binding& binding,
                                 const execute::SourceFiles& source,
                                 const plan::Visibility& visibility, const plan::JobPlan& choice) {
    std::vector<Untied> untied;
    if (!binding.same.empty()) {
        untied = untied_of(comm, binding, source, visibility, choice);
    }
    drop_copies(binding);
    return untied;
}

void require_equal_replicas(mpi::Comm& comm, const execute::Result& result, const plan::Plan& plan,
                            const std::vector<catalogue::File>& files, const std::string& doubt) {
    if (result.differences.empty()) {
        return;
    }
    // The first rank has the whole plan.
    throw mpi::share(comm, 0, [&] { return unequal_replicas(result, plan, files, doubt); });
}

Warnings sampling_warnings(const plan::Plan& plan) {
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
