// The command unmount.

#include <cerrno>

#include "app/runtime/mounts.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

/// A dead mount cannot be looked at, but what lies above it can.
fs::path resolved_point(const fs::path& given) {
    const fs::path point = io::without_dots(given);
    return io::resolved(point.parent_path()) / point.filename();
}

}  // namespace

int unmount(const Job& job, Log& log) {
    const fs::path point = resolved_point(job.inputs.front().directory);
    const auto mounts = model_mounts();
    auto* const found = find_item(mounts, point, &ModelMount::point);
    if (found == nullptr) {
        throw Error(ErrorCode::not_found, "no model is mounted at " + printable(point.string()),
                    mounts.empty()
                        ? "none is mounted on this host"
                        : "mounted here: " + joined(mounts, ", ", [](const ModelMount& one) {
                              return printable(one.point.string());
                          }));
    }
    const int failure = take_away(point);
    if (failure == EBUSY) {
        throw Error(ErrorCode::locked, "the model at " + printable(point.string()) + " is in use",
                    "end what reads it (fuser -vm " + process::shell_word(point.string()) +
                        "), then run this again");
    }
    if (failure != 0) {
        throw Error(ErrorCode::io,
                    "cannot unmount " + printable(point.string()) + ": " + text_of_errno(failure));
    }
    log.debug("unmounted " + point.string());
    return 0;
}

}  // namespace shardweld::app
