// Sending a model to the Hub, as part of a merge and as a command of its own.
#pragma once

#include <optional>

#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "upload/upload.hpp"

namespace shardweld::app {

/// What the first rank uploads with; nothing on the others.
using HubAccess = std::optional<upload::Access>;

/// Whether the options ask for an upload.
inline bool uploads(const Options& options) {
    return !options.upload_path.empty();
}

/// Collective. Checks everything about an upload that can be checked before there is a model.
/// Error(usage), Error(no_client), Error(no_token).
HubAccess prepare_upload(mpi::Comm& comm, const Options& options);

struct Upload {
    const HubAccess& access;
    fs::path directory;
    mpi::WhyStop why_stop;  ///< asked before the client is started; may be empty
};

/// Collective. The first rank uploads the directory; the others sleep. Errors as upload::upload,
/// the same on all ranks.
void upload_directory(mpi::Comm& comm, const Options& options, const Upload& upload, Log& log);

}  // namespace shardweld::app
