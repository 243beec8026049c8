#include "unwritten.hpp"

#include <thread>
#include <utility>

#include "app/survey/input.hpp"

#include "merge.hpp"
#include "move_tensors.hpp"
#include "sources.hpp"

namespace shardweld::app {

Unwritten::Unwritten(std::unique_ptr<mpi::Comm> alone, Job job, Log log,
                     const std::function<void(const Output&)>& check)
    : comm_(std::move(alone)),
      job_(std::move(job)),
      log_(std::move(log)),
      run_(begin_run(*comm_, job_, log_)),
      merge_(begin_merge(run_)) {
    merge_.is_written = job_.command == Command::mount;
    find_inputs(run_, merge_);
    plan_found(run_, merge_);
    if (check) {
        check(merge_.first());
    }
    fs::path factors;
    if (merge_.factors) {
        scratch_.emplace(*comm_);
        make_factors(run_, merge_, scratch_->path(), {});
        factors = scratch_->path() / kFactors;
    }
    take_divisors(run_, merge_.input, factors, merge_.first(), {});
    if (merge_.input.is_checked) {
        merge_.input.sums->use_records_of(plan().targets);
    }
    source_ = source_of(run_, merge_.input);
    source_.stays_cached = true;
    readers_.emplace(plan(), source_, factors, std::thread::hardware_concurrency());
}

}  // namespace shardweld::app
