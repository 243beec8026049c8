#include "uploading.hpp"

#include <string>
#include <string_view>
#include <vector>

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
upload::UploadRequest hub_request(const Options& options, const fs::path& directory) {
    return {directory,      options.upload_path,    options.is_private,
            options.hf_cli, {publish::kKeptReport}, options.revision};
}

Bytes size_sent(const upload::UploadRequest& request) {
    Bytes size = 0;
    for (const upload::ModelFile& file : upload::files_sent(request.directory, request.kept_back)) {
        size += file.size;
    }
    return size;
}

void require_time(const upload::UploadRequest& request, const mpi::WhyStop& why_stop) {
    if (const std::string why = why_stop ? why_stop() : ""; !why.empty()) {
        throw Error(
            ErrorCode::interrupted, why + ", before the upload to " + request.repository,
            "then, from " + request.directory.string() + ": " + upload::retry_command(request));
    }
}

/// On the first rank.
void send(const upload::UploadRequest& request, const Upload& upload, Progress& progress,
          Log& log) {
    const Bytes size = size_sent(request);
    const std::string what = request.directory.string() + " to " + request.repository;
    log.info("uploading " + what + " (" + upload.access->client.string() + ")");
    const Index total = to_index(size, "files");
    progress.begin("uploading", {total, total});
    const double begun = wall_seconds();
    require_time(request, upload.why_stop);
    upload::ClientProgress sent(request.directory, request.kept_back);
    upload::upload(request, *upload.access, [&](std::string_view line) {
        if (line == upload::kNoCard) {
            log.info("note: " + std::string(line));
        } else {
            log.debug("client: " + std::string(line));
        }
        progress.update(to_index(sent.read(line), "files"));
    });
    progress.end();
    log.info("uploaded " + what + ": " + human_bytes(size) + " in " +
             duration_text(wall_seconds() - begun));
}

}  // namespace

HubAccess prepare_upload(mpi::Comm& comm, const Options& options) {
    HubAccess access;
    mpi::while_others_sleep(comm, [&](const mpi::IsCalled&) {
        access = upload::check_access(hub_request(options, {}), variable);
    });
    return access;
}

void upload_directory(mpi::Comm& comm, const Options& options, const Upload& upload, Log& log) {
    Progress progress(log, style_for(options.progress, log, options.is_quiet), steady_clock());
    mpi::while_others_sleep(comm, [&](const mpi::IsCalled&) {
        send(hub_request(options, upload.directory), upload, progress, log);
    });
}

}  // namespace shardweld::app
