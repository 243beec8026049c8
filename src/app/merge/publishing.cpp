#include "publishing.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/io/input_file.hpp"
#include "shardweld/mpi/share.hpp"
#include "shardweld/plan/plan.hpp"
#include "shardweld/publish/assets.hpp"
#include "shardweld/publish/target.hpp"

#include "moving.hpp"
#include "preflight.hpp"
#include "result_check.hpp"
#include "resumption.hpp"
#include "striping.hpp"
#include "target.hpp"

namespace shardweld::app {

namespace {

/// What there is to go on with, should the run fail.
struct Draft {
    std::optional<publish::PartialDirectory> partial;  ///< the first rank's
    std::optional<publish::RunFacts> begun;            ///< blocks are written down
};

/// What has been written.
struct WrittenOutput {
    execute::CreatedFiles created;
    execute::Written written;
    std::vector<io::WrittenFile> beside;  ///< the home rank's: all that is not a tensor
};

void say_notes(Session& session, publish::PartialDirectory& partial) {
    for (const std::string& note : partial.take_notes()) {
        session.log.warning(note);
    }
}

void open_partial(Session& session, Draft& draft) {
    const Options& options = session.options;
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() != 0) {
            return;
        }
        draft.partial.emplace(publish::PartialDirectory::create(target_request(options)));
        say_notes(session, *draft.partial);
        if (draft.partial->is_taken_up()) {
            return;
        }
        if (options.resume) {
            session.log.info("nothing to resume for " + options.target_dir.string() +
                             ": starting from the beginning");
        }
        stripe(draft.partial->path(), options);
    });
}

void say_taken(Session& session, const execute::Resumption& resumption, const plan::Plan& plan) {
    if (const std::string taken = taken_text(resumption, plan); !taken.empty()) {
        session.log.info("continuing an earlier merge: " + taken +
                         " are written already (--restart starts from the beginning)");
    }
}

void begin_journal(Session& session, Draft& draft, publish::RunFacts facts) {
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            start_journal(facts, *draft.partial, session.options.sync);
        }
    });
    draft.begun = std::move(facts);
}

/// Writes the tensors and looks at what is written.
execute::Written write_tensors(Session& session, Planned& planned, const io::Directory& directory,
                               execute::RunOptions run) {
    ResultCheck check(session, planned);
    run.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
        check.add(slice, bytes);
    };
    auto written = move_tensors(session, planned, directory, std::move(run));
    warn(session, check.finish(session));
    if (const auto problems = strict_problems(session); !problems.empty()) {
        throw Error(all_of(problems, "warnings"));
    }
    return written;
}

std::vector<io::WrittenFile> write_beside(Session& session, const Planned& planned,
                                          const io::Directory& directory) {
    std::vector<io::WrittenFile> beside;
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        if (session.comm.rank() == planned.input.home) {
            beside = publish::write_assets(planned.assets(), directory, session.options.sync, step);
        }
    });
    return beside;
}

/// Collective. Every file of the model, and which one it is.
io::Identities all_files(Session& session, const Planned& planned, const WrittenOutput& made) {
    io::Identities files;
    for (std::size_t at = 0; at < made.created.files.size(); ++at) {
        files[planned.plan.placement.files[at].name] = made.created.files[at];
    }
    const auto beside = mpi::share(session.comm, planned.input.home, [&] {
        std::map<fs::path, io::Identity> identities;
        for (const io::WrittenFile& file : made.beside) {
            identities[file.name] = file.identity;
        }
        return identities;
    });
    for (const auto& [name, identity] : beside) {
        files[name] = identity;
        files[name].inode = made.created.has_numbers ? identity.inode : 0;
    }
    return files;
}

/// What is there beside the weights.
std::vector<std::string> side_files_of(const io::Identities& files,
                                       const outputs::Placement& placement) {
    std::vector<std::string> names;
    for (const auto& [name, identity] : files) {
        const auto is_it = [&](const outputs::PlacedFile& file) { return file.name == name; };
        if (std::none_of(placement.files.begin(), placement.files.end(), is_it)) {
            names.push_back(name.string());
        }
    }
    return names;
}

/// In the partial directory: what is published is what was hashed.
void hash(Session& session, const Planned& planned, const io::Directory& directory,
          const io::Identities& files, const mpi::WhyStop& why_stop) {
    if (!session.options.sha256) {
        return;
    }
    const auto open = [&](const std::string& name) -> std::optional<io::InputFile> {
        io::require_same_file(directory, name, files.at(name));
        return io::InputFile::open(directory, name);
    };
    const auto names = [&] {
        std::vector<std::string> all;
        for (const auto& [name, identity] : files) {
            all.push_back(name.string());
        }
        return all;
    };
    session.report.files =
        hash_files(session.comm, open, planned.input.home, names, session.throttle.get(), why_stop,
                   shown(session.progress, "hashing files"));
    session.watch.lap("sha256");
}

/// Behind everything else that is written or read: what is published is what was checked.
void check(Session& session, const Planned& planned, const io::Directory& directory,
           const WrittenOutput& made, const mpi::WhyStop& why_stop) {
    session.progress.begin("checking what was written");
    check_written(session, planned, directory, made.created, made.written,
                  ticking(session.progress, why_stop));
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        for (const io::WrittenFile& file : made.beside) {
            io::require_as_written(directory, file,
                                   {true, session.options.paranoid, [&](Bytes) { step(); }});
        }
    });
    session.progress.end();
    session.watch.lap("check");
}

void publish_all(Session& session, Draft& draft, const io::Identities& files) {
    mpi::collectively(session.comm, [&] {
        if (draft.partial) {
            draft.partial->commit(files, session.options.sync);
            say_notes(session, *draft.partial);
        }
    });
    session.watch.lap("publish");
}

void write(Session& session, Planned& planned, Draft& draft, const mpi::WhyStop& why_stop,
           Watchdog& watchdog) {
    watchdog.enter("preparing the output");
    open_partial(session, draft);
    const io::Directory directory =
        publish::check_same_directory(session.comm, mpi::share(session.comm, 0, [&] {
                                          return draft.partial ? draft.partial->path() : fs::path();
                                      }));
    execute::RunOptions options;
    options.why_stop = why_stop;
    publish::RunFacts facts = run_facts(session.comm, session.options, planned.plan,
                                        source_of(session, planned.input), planned.input.digests);
    options.resumption =
        take_up(session.comm, planned.plan, facts, draft.partial ? &*draft.partial : nullptr);
    say_taken(session, options.resumption, planned.plan);
    WrittenOutput made;
    made.created = create_files(session, planned, directory);
    options.made = made.created.files;
    begin_journal(session, draft, std::move(facts));
    watchdog.enter("moving tensors");
    made.written = write_tensors(session, planned, directory, std::move(options));
    watchdog.enter("publishing");
    made.beside = write_beside(session, planned, directory);
    const io::Identities files = all_files(session, planned, made);
    session.report.side_files = side_files_of(files, planned.plan.placement);
    hash(session, planned, directory, files, why_stop);
    check(session, planned, directory, made, why_stop);
    publish_all(session, draft, files);
}

/// Whether the same command may do better another time: not where the checkpoint is wrong, or has
/// become another.
bool can_go_on(ErrorCode code, const Session& session, const Planned& planned,
               const publish::RunFacts& begun) {
    return code != ErrorCode::mismatch && code != ErrorCode::corrupt &&
           code != ErrorCode::unsupported &&
           !has_changed_input(begun, planned.plan.visibility, session.comm.rank(),
                              planned.input.directory);
}

}  // namespace

void write_and_publish(Session& session, Planned& planned, const Stopping& stopping,
                       Watchdog& watchdog) {
    Draft draft;
    try {
        write(
            session, planned, draft, [&] { return stopping.why(); }, watchdog);
    } catch (Error& error) {
        // A refusal to resume touches nothing. The first rank speaks for all.
        const bool is_begun = draft.begun && draft.partial;
        if (is_begun && !can_go_on(error.code(), session, planned, *draft.begun)) {
            draft.partial->forget_work();
        }
        if (is_begun) {
            tell_kept(error, planned.plan, *draft.partial);
        }
        throw;
    }
}

}  // namespace shardweld::app
