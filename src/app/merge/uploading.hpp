// Sending a model elsewhere, to the Hub or with a command, as part of a merge and as a command of
// its own.
#pragma once

#include <memory>

#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "upload/store.hpp"

namespace shardweld::app {

/// Where the first rank sends; nothing on the others.
using SharedStore = std::shared_ptr<upload::Store>;

/// Whether the options ask for it.
inline bool sends(const Options& options) {
    return !options.upload_path.empty() || !options.put.empty();
}

/// Collective. Checks everything about it that can be checked before there is a model.
/// Error(usage), Error(no_client), Error(no_token).
SharedStore prepare_upload(mpi::Comm& comm, const Options& options);

struct Upload {
    SharedStore store;
    fs::path directory;
    mpi::WhyStop why_stop;  ///< as Telling's
};

/// Collective. The first rank sends the directory; the others sleep. Errors as Store::send, the
/// same on all ranks.
void upload_directory(mpi::Comm& comm, const Options& options, const Upload& upload, Log& log);

}  // namespace shardweld::app
