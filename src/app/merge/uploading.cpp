#include "uploading.hpp"

#include "app/messages/table.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "mpi/sleeping.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"
#include "upload/client_progress.hpp"

namespace shardweld::app {

namespace {

/// A report tells of paths, hosts and people: it is nobody's but its owner's.
upload::UploadRequest request_of(const Options& options, const fs::path& directory) {
    return {directory,      options.upload_path,    options.is_private,
            options.hf_cli, {publish::kKeptReport}, options.revision};
}

}  // namespace

upload::Access prepare_upload(mpi::Comm& comm, const Options& options) {
    upload::Access access;
    mpi::while_others_sleep(comm, [&](const mpi::IsCalled&) {
        access = upload::check_access(request_of(options, options.target_dir), variable);
    });
    return access;
}

void upload_directory(mpi::Comm& comm, const Options& options, const fs::path& directory,
                      const upload::Access& access, Log& log) {
    const upload::UploadRequest request = request_of(options, directory);
    log.info("uploading " + directory.string() + " to " + request.repository + " with " +
             access.client.string());
    Progress progress(log, style_for(options.progress, log, options.is_quiet), steady_clock());
    upload::ClientProgress sent(directory, request.kept_back);
    const Index total = to_index(sent.total(), "files");
    progress.begin("uploading", {total, total});
    const double begun = wall_seconds();
    mpi::while_others_sleep(comm, [&](const mpi::IsCalled&) {
        upload::upload(request, access, [&](std::string_view line) {
            line == upload::kNoCard ? log.info("note: " + std::string(line))
                                    : log.debug("client: " + std::string(line));
            progress.update(to_index(sent.read(line), "files"));
        });
    });
    progress.end();
    log.info("uploaded " + directory.string() + " to " + request.repository + ": " +
             human_bytes(sent.total()) + " in " + duration_text(wall_seconds() - begun));
}

}  // namespace shardweld::app
