#include "uploading.hpp"

#include <chrono>
#include <exception>
#include <thread>

#include "app/messages/table.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"
#include "upload/client_progress.hpp"

namespace shardweld::app {

namespace {

/// A report tells of paths, hosts and people: it is nobody's but its owner's.
upload::UploadRequest request_of(const Options& options, const fs::path& directory) {
    return {directory, options.upload_path, options.is_private, options.hf_cli,
            publish::kKeptReport};
}

/// An upload takes hours at times: ranks that wait leave their cores to others.
constexpr auto kNap = std::chrono::milliseconds(50);

/// Collective. Runs `action` on the first rank while the others sleep; an error is everyone's.
template <typename Action>
void while_others_sleep(mpi::Comm& comm, const Action& action) {
    std::exception_ptr failed;
    if (comm.rank() == 0) {
        try {
            action();
        } catch (...) {
            failed = std::current_exception();
        }
        comm.raise_alarm();
    }
    while (!comm.alarm()) {
        std::this_thread::sleep_for(kNap);
    }
    comm.end_of_free_run();
    mpi::collectively(comm, [&] {
        if (failed) {
            std::rethrow_exception(failed);
        }
    });
}

}  // namespace

upload::Access prepare_upload(mpi::Comm& comm, const Options& options) {
    upload::Access access;
    while_others_sleep(comm, [&] {
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
    while_others_sleep(comm, [&] {
        upload::upload(request, access, [&](std::string_view line) {
            log.debug("client: " + std::string(line));
            progress.update(to_index(sent.read(line), "files"));
        });
    });
    progress.end();
    log.info("uploaded " + directory.string() + " to " + request.repository + ": " +
             human_bytes(sent.total()) + " in " + duration_text(wall_seconds() - begun));
}

}  // namespace shardweld::app
