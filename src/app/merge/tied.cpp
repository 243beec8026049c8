#include "tied.hpp"

#include <algorithm>

#include "plan/plan.hpp"

namespace shardweld::app {

std::vector<Untied> compare_same(mpi::Comm& comm, plan::Binding& binding,
                                 const execute::SourceFiles& source,
                                 const plan::Visibility& visibility,
                                 const plan::PlanChoice& choice) {
    if (binding.same.empty()) {
        return {};
    }
    std::vector<plan::Target> targets;
    for (const plan::SamePair& pair : binding.same) {
        plan::Target target = binding.targets[pair.target];
        const auto first =
            target.replicas.begin() + static_cast<std::ptrdiff_t>(pair.first_replica);
        target.replicas =
            std::vector<plan::Operand>(first, first + static_cast<std::ptrdiff_t>(pair.count));
        targets.push_back(std::move(target));
    }
    plan::PlanChoice all = choice;
    all.replicas = plan::Replicas::verify;
    const auto plan = mpi::collectively_get(
        comm, [&] { return plan::make_plan(std::move(targets), *source.files, visibility, all); });
    execute::RunOptions options;
    options.write = false;
    const execute::Result result = execute::run(comm, plan, source, fs::path(), options);
    std::vector<Untied> untied;
    for (std::size_t i = 0; i < binding.same.size(); ++i) {
        Untied one{binding.same[i].stored_name, plan.targets[i].name, 0, binding.same[i].why};
        for (const execute::Difference& difference : result.differences) {
            one.n_elements += difference.target == i ? difference.n_elements : 0;
        }
        if (one.n_elements > 0) {
            untied.push_back(std::move(one));
        }
    }
    for (const plan::SamePair& pair : binding.same) {
        binding.targets[pair.target].replicas.resize(pair.first_replica);
    }
    return untied;
}

}  // namespace shardweld::app
