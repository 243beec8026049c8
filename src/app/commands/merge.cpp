// The command merge.

#include "app/merge/main_path.hpp"
#include "app/report/reported.hpp"

#include "commands.hpp"

namespace shardweld::app {

int merge(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "merge", [](Outputs outputs) {
        merge_model(std::move(outputs));
        return ErrorCode::ok;
    });
}

}  // namespace shardweld::app
