// Sending a merged model to the Hub: the command upload, run behind the merge.
#pragma once

#include "app/messages/log.hpp"
#include "app/settings/job.hpp"
#include "core/path.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"

namespace shardweld::app {

/// Whether the options ask for an upload.
inline bool uploads(const Job& job) {
    return !job.run.upload_path.empty();
}

/// Collective. Checks everything about an upload that can be checked before there is a model.
/// Error(usage), Error(no_client), Error(no_token); Error(not_found) where the command is not
/// installed or cannot run.
void check_upload(mpi::Comm& comm, const Job& job, Log& log);

/// Collective. The first rank uploads the directory; the others sleep. The model stays where it is:
/// Error(corrupt), Error(no_client) and those behind it in ErrorCode, the same on all ranks.
/// `why_stop`: asked before the client is started; may be empty.
void upload_directory(mpi::Comm& comm, const Job& job, const fs::path& directory,
                      const mpi::WhyStop& why_stop, Log& log);

}  // namespace shardweld::app
