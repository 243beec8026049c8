#include "base_comparison.hpp"

#include <utility>

namespace shardweld::app {

BaseComparison::BaseComparison(mpi::Comm& comm, const Options& options, const Assembly& assembly,
                               Bytes memory)
    : directory_(options.base->string()),
      base_(read_model_directory(comm, *options.base)),
      matching_(match(assembly.plan().targets, base_.tensors(), {assembly.ties(), base_.ties()})),
      comparer_(assembly.plan(),
                {base_.source(options.max_open, assembly.throttle()), &base_.tensors()},
                matching_.pairs, {0, 0}, memory) {}

BaseSummary BaseComparison::finish(mpi::Comm& comm) {
    return summary_of(directory_, judge(std::move(matching_), comparer_.gather(comm), false));
}

}  // namespace shardweld::app
