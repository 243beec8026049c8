// The command upload: a finished model to the hub.

#include "upload/upload.hpp"

#include "app/merge/uploading.hpp"
#include "formats/recognise.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

void check_model(const fs::path& directory) {
    try {
        upload::check_model(directory);
    } catch (const Error&) {
        formats::refuse_unmerged(directory);
        throw;
    }
}

}  // namespace

int upload_model(mpi::Comm& comm, const Options& options, Log& log) {
    const fs::path& directory = options.local_dir;
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            upload::check_repository(options.upload_path);
            check_model(directory);
        }
    });
    const HubAccess access = prepare_upload(comm, options);
    upload_directory(comm, options, {access, directory, {}}, log);
    return 0;
}

}  // namespace shardweld::app
