// The command merge.

#include "app/merge/run_merge.hpp"
#include "app/report/reported.hpp"

#include "commands.hpp"

namespace shardweld::app {

int merge(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "merge", [](Session& session) {
        merge_model(session);
        return ErrorCode::ok;
    });
}

}  // namespace shardweld::app
