#include "preparation.hpp"

#include "../merge/target.hpp"
#include "../report/report_place.hpp"
#include "upload.hpp"

namespace shardweld::app {

namespace {

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
}

void check_target_place(Session& session, Preflight& preflight, Preparation& ready) {
    mpi::Comm& comm = session.comm;
    const Planned& planned = ready.planned;
    preflight.check(
        [&] { check_inputs_apart(comm, session.options, source_of(session, planned.input)); });
    preflight.check([&] {
        ready.beside =
            gather_side_files(comm, planned.input.home, [&] { return planned.assets(); });
    });
    preflight.check([&] { check_room(session, ready); });
}

}  // namespace shardweld::app
