#include "preparation.hpp"

#include <cstdint>
#include <map>

#include "app/report/reported.hpp"

#include "target.hpp"
#include "uploading.hpp"

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

/// Outputs on one file system need their room together.
void check_room(Session& session, const Preparation& ready) {
    std::map<std::uint64_t, Needs> together;
    for (std::size_t at = 0; at < ready.beside.size(); ++at) {
        Session& one = output_session(session, at);
        const Planned& planned = output_of(ready.planned, at);
        const publish::Room room = room_of_target(one.comm, one.options);
        one.report.quotas = quotas_of(room);
        one.log.debug("quotas of the target's file system: " + quotas_text(*one.report.quotas));
        const Needs own = needs_of(planned.plan, ready.beside[at], planned.factor_bytes());
        Needs& all = together[room.device];
        all.bytes += own.bytes;
        all.n_files += own.n_files;
        require_room(one.comm, one.options, room, all);
    }
}

}  // namespace

Terms merge_terms(const Options& options, std::optional<Crew> crew) {
    return {Destination::model, options.base.has_value(), std::move(crew)};
}

void check_before_reading(Session& session, Preflight& preflight, Preparation& ready,
                          bool has_target, int n_ranks, Log& log) {
    mpi::Comm& comm = session.comm;
    const Options& options = session.options;
    for (std::size_t at = 0; has_target && at <= session.also.size(); ++at) {
        const Options& one = output_session(session, at).options;
        preflight.check([&] { check_target(comm, one); });
        preflight.check([&] { check_report(comm, one, one.target_dir); });
    }
    if (has_target) {
        preflight.check([&] { check_targets_apart(session); });
    }
    preflight.check([&] { ready.roof = look_at_roof(comm, options, n_ranks, log); });
    if (!options.upload_path.empty()) {
        preflight.check([&] { ready.access = prepare_upload(comm, options); });
    }
    if (!ready.sources) {
        preflight.check(
            [&] { ready.sources.emplace(find_sources(session, merge_terms(options))); });
    }
    if (ready.sources && has_target) {
        for (std::size_t at = 0; at <= session.also.size(); ++at) {
            preflight.check([&] {
                check_inputs_apart(comm, output_session(session, at).options, *ready.sources);
            });
        }
        ready.has_least_room = preflight.check([&] { check_least_room(session, *ready.sources); });
    }
}

void check_target_place(Session& session, Preflight& preflight, Preparation& ready) {
    mpi::Comm& comm = session.comm;
    preflight.check([&] {
        for (std::size_t at = 0; at <= ready.planned.also.size(); ++at) {
            const Planned& planned = output_of(ready.planned, at);
            ready.beside.push_back(
                gather_side_files(comm, planned.input.home, [&] { return planned.assets(); }));
        }
    });
    if (ready.has_least_room) {
        preflight.check([&] { check_room(session, ready); });
    }
}

}  // namespace shardweld::app
