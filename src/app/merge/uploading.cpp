#include "uploading.hpp"

#include <string>
#include <vector>

#include "app/messages/table.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "mpi/sleeping.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// A report tells of paths, hosts and people: it is nobody's but its owner's.
const std::vector<std::string>& kept_back() {
    static const std::vector<std::string> names = {publish::kKeptReport, publish::kPutRecord};
    return names;
}

SharedStore store_of(const Options& options) {
    if (!options.put.empty()) {
        return upload::command_store({options.put, kept_back(), publish::kPutRecord}, variable);
    }
    return upload::hub_store({{},
                              options.upload_path,
                              options.is_private,
                              options.hf_cli,
                              kept_back(),
                              options.revision},
                             variable);
}

Bytes size_of(const fs::path& directory) {
    Bytes size = 0;
    for (const upload::ModelFile& file : upload::files_sent(directory, kept_back())) {
        size += file.size;
    }
    return size;
}

/// On the first rank.
void send(upload::Store& store, const fs::path& directory, const mpi::WhyStop& why_stop,
          Progress& progress, Log& log) {
    const Bytes size = size_of(directory);
    log.info("uploading " + directory.string() + " " + store.place() + " (" +
             store.client().string() + ")");
    const Index total = to_index(size, "files");
    progress.begin("uploading", {total, total});
    const double begun = wall_seconds();
    store.send(directory,
               {[&](auto line) { log.debug("client: " + std::string(line)); },
                [&](auto line) { log.info("note: " + std::string(line)); },
                [&](Bytes sent) { progress.update(to_index(sent, "files")); }, why_stop});
    progress.end();
    log.info("uploaded " + directory.string() + " " + store.place() + ": " + human_bytes(size) +
             " in " + duration_text(wall_seconds() - begun));
}

}  // namespace

SharedStore prepare_upload(mpi::Comm& comm, const Options& options) {
    SharedStore store;
    mpi::while_others_sleep(comm, [&](const mpi::IsCalled&) { store = store_of(options); });
    return store;
}

void upload_directory(mpi::Comm& comm, const Options& options, const Upload& upload, Log& log) {
    Progress progress(log, style_for(options.progress, log, options.is_quiet), steady_clock());
    mpi::while_others_sleep(comm, [&](const mpi::IsCalled&) {
        send(*upload.store, upload.directory, upload.why_stop, progress, log);
    });
}

}  // namespace shardweld::app
