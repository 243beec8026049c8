#include "preparation.hpp"

#include "../merge/target.hpp"
#include "../report/reported.hpp"
#include "upload.hpp"

namespace shardweld::app {

namespace {

/// The sizes of files tell the least that is needed.
void check_least_room(Session& session, const Sources& sources) {
    mpi::Comm& comm = session.comm;
    const FilesBeside beside = gather_side_files(comm, sources.checkpoint.home, [&] {
        return sources.files ? sources.files->assets : std::vector<publish::Asset>();
    });
    require_room(comm, session.options, room_of_target(comm, session.options),
                 least_needs(session.options, sources.checkpoint, beside));
}

void check_room(Session& session, const Preparation& ready) {
    const publish::Room room = room_of_target(session.comm, session.options);
    session.report.quotas = quotas_of(room);
    session.log.debug("quotas of the target's file system: " + quotas_text(*session.report.quotas));
    require_room(session.comm, session.options, room,
                 needs_of(ready.planned.plan, ready.beside, ready.planned.factor_bytes()));
}

}  // namespace

Terms merge_terms(const Options& options, std::optional<Crew> crew) {
    return {Destination::model, options.base.has_value(), std::move(crew)};
}

void check_before_reading(Session& session, Preflight& preflight, Preparation& ready,
                          bool has_target, int n_ranks, Log& log) {
    mpi::Comm& comm = session.comm;
    const Options& options = session.options;
    if (has_target) {
        preflight.check([&] { check_target(comm, options); });
        preflight.check([&] { check_report(comm, options, options.target_dir); });
    }
    preflight.check([&] { ready.roof = look_at_roof(comm, options, n_ranks, log); });
    if (!options.upload_path.empty()) {
        preflight.check([&] { ready.access = prepare_upload(comm, options); });
    }
    preflight.check([&] { ready.sources.emplace(find_sources(session, merge_terms(options))); });
    if (ready.sources && has_target) {
        preflight.check([&] { check_inputs_apart(comm, options, *ready.sources); });
        ready.has_least_room = preflight.check([&] { check_least_room(session, *ready.sources); });
    }
}

void check_target_place(Session& session, Preflight& preflight, Preparation& ready) {
    mpi::Comm& comm = session.comm;
    const Planned& planned = ready.planned;
    preflight.check([&] {
        ready.beside =
            gather_side_files(comm, planned.input.home, [&] { return planned.assets(); });
    });
    if (ready.has_least_room) {
        preflight.check([&] { check_room(session, ready); });
    }
}

}  // namespace shardweld::app
