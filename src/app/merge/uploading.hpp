// Uploading as part of a merge and as a command of its own.
#pragma once

#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"
#include "upload/upload.hpp"

namespace shardweld::app {

/// Collective. Checks everything about an upload that can be checked before there is a model; what
/// the first rank needs, empty on the others. Error(usage), Error(no_client), Error(no_token).
upload::Access prepare_upload(mpi::Comm& comm, const Options& options);

/// Collective. The first rank uploads `directory`; the others sleep. Errors as upload::upload, the
/// same on all ranks.
void upload_directory(mpi::Comm& comm, const Options& options, const fs::path& directory,
                      const upload::Access& access, Log& log);

}  // namespace shardweld::app
