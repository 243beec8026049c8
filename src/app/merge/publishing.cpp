#include "publishing.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "io/input_file.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"
#include "publish/assets.hpp"
#include "publish/target.hpp"

#include "base_comparison.hpp"
#include "completed.hpp"
#include "moving.hpp"
#include "preflight.hpp"
#include "resumption.hpp"
#include "target.hpp"

namespace shardweld::app {

namespace {

/// What has been written.
struct WrittenOutput {
    execute::CreatedFiles created;
    execute::Written written;
    std::vector<io::WrittenFile> beside;  ///< the home rank's: all that is not a tensor
};

/// An output on its way, and what there is to go on with, should the run fail.
struct Draft {
    Session& session;
    Planned& planned;
    std::optional<publish::PartialDirectory> partial = {};  ///< the first rank's
    std::optional<publish::RunFacts> begun = {};            ///< blocks are written down
    std::optional<io::Directory> directory = {};            ///< the partial one
    execute::Resumption resumption = {};
    std::size_t n_known = 0;  ///< what the journal told, as Resumption::n_known
    WrittenOutput made = {};
    io::Identities files = {};  ///< of the model, when they are complete
};

void say_notes(Session& session, publish::PartialDirectory& partial) {
    for (const std::string& note : partial.take_notes()) {
        session.log.warning(note);
    }
}

void open_partial(Draft& draft) {
    Session& session = draft.session;
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
    draft.directory =
        publish::check_same_directory(session.comm, mpi::share(session.comm, 0, [&] {
                                          return draft.partial ? draft.partial->path() : fs::path();
                                      }));
}

void say_taken(const Draft& draft) {
    if (const std::string taken = taken_text(draft.resumption, draft.planned.plan);
        !taken.empty()) {
        draft.session.log.info("continuing an earlier merge: " + taken +
                               " are written already (--restart starts from the beginning)");
    }
}

/// Files at their full size and a journal, the older run's where there was one.
void begin(Draft& draft) {
    Session& session = draft.session;
    Planned& planned = draft.planned;
    publish::RunFacts facts = run_facts(session.comm, session.options, planned.plan,
                                        source_of(session, planned.input), planned.input.digests);
    draft.resumption =
        take_up(session.comm, planned.plan, facts, draft.partial ? &*draft.partial : nullptr);
    draft.n_known = draft.resumption.n_known;
    if (compares_with_base(session.options, planned)) {
        draft.resumption.seen.clear();  // all bytes are compared
    }
    say_taken(draft);
    draft.made.created = create_files(session, planned, *draft.directory);
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            start_journal(facts, *draft.partial, session.options.sync);
            session.report.made_of = {draft.partial->target().string(),
                                      config_digest(planned.model.files.config_text), facts.options,
                                      facts.inputs};
        }
    });
    draft.begun = std::move(facts);
}

/// Writes the tensors of all outputs and looks at what is written.
void write_tensors(std::vector<Draft>& drafts, const mpi::WhyStop& why_stop) {
    std::deque<ResultCheck> checks;
    std::vector<Moving> moving;
    for (Draft& draft : drafts) {
        ResultCheck& check = checks.emplace_back(draft.session, draft.planned, checks.empty());
        execute::RunOptions run;
        run.why_stop = why_stop;
        run.made = draft.made.created.files;
        run.resumption = std::move(draft.resumption);
        run.on_slice = [&check](const plan::Slice& slice, std::span<const std::byte> bytes) {
            check.add(slice, bytes);
        };
        run.on_seen = [&check](const plan::Slice& slice, const numeric::Census& census) {
            check.add(slice, census);
        };
        moving.push_back({draft.session, draft.planned, *draft.directory, std::move(run)});
    }
    auto written = move_tensors(std::move(moving));
    for (std::size_t at = 0; at < drafts.size(); ++at) {
        Session& session = drafts[at].session;
        drafts[at].made.written = std::move(written[at]);
        warn(session, checks[at].finish(session));
        if (const auto problems = strict_problems(session); !problems.empty()) {
            throw Error(all_of(problems, "warnings"));
        }
    }
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

/// All that lies beside the tensors, and a look at everything.
void complete(Draft& draft, const mpi::WhyStop& why_stop) {
    Session& session = draft.session;
    draft.made.beside = write_beside(session, draft.planned, *draft.directory);
    draft.files = all_files(session, draft.planned, draft.made);
    session.report.side_files = side_files_of(draft.files, draft.planned.plan.placement);
    hash(session, draft.planned, *draft.directory, draft.files, why_stop);
    check(session, draft.planned, *draft.directory, draft.made, why_stop);
}

/// The first output last: as long as its journal is there, a later run knows what has appeared.
void publish_all(std::vector<Draft>& drafts) {
    Session& session = drafts.front().session;
    mpi::collectively(session.comm, [&] {
        for (std::size_t at = drafts.size(); at-- > 0;) {
            Draft& draft = drafts[at];
            if (!draft.partial) {
                continue;
            }
            if (at > 0) {
                drafts.front().partial->note_publishing(*draft.partial);
            }
            draft.partial->commit(draft.files, session.options.sync);
            say_notes(session, *draft.partial);
        }
    });
    session.watch.lap("publish");
}

void write(std::vector<Draft>& drafts, const mpi::WhyStop& why_stop, Watchdog& watchdog) {
    watchdog.enter("preparing the output");
    for (Draft& draft : drafts) {
        open_partial(draft);
    }
    for (Draft& draft : drafts) {
        begin(draft);
    }
    watchdog.enter("moving tensors");
    write_tensors(drafts, why_stop);
    watchdog.enter("publishing");
    for (Draft& draft : drafts) {
        complete(draft, why_stop);
    }
    publish_all(drafts);
}

/// Whether the same command may do better another time: not where the checkpoint is wrong, or has
/// become another.
bool can_go_on(ErrorCode code, const Draft& draft) {
    return code != ErrorCode::mismatch && code != ErrorCode::corrupt &&
           code != ErrorCode::unsupported &&
           !has_changed_input(*draft.begun, draft.planned.plan.visibility,
                              draft.session.comm.rank(), draft.planned.input.directory);
}

/// What is kept for another run, and said of it. A refusal to resume touches nothing. The first
/// rank speaks for all.
void settle(const std::vector<Draft>& drafts, Error& error) {
    for (const Draft& draft : drafts) {
        const bool is_begun = draft.begun && draft.partial;
        if (is_begun && !can_go_on(error.code(), draft)) {
            draft.partial->forget_work();
        }
        if (is_begun && error.code() == ErrorCode::stopped) {
            stamp_output(draft.planned.plan, *draft.partial);
        }
        if (is_begun && &draft == &drafts.front()) {
            tell_kept(error, draft.planned.plan, *draft.partial, draft.n_known);
        }
    }
}

}  // namespace

void write_and_publish(Session& session, Planned& planned, const Stopping& stopping,
                       Watchdog& watchdog) {
    std::vector<Draft> drafts;
    for (std::size_t at = 0; at <= planned.also.size(); ++at) {
        drafts.push_back({output_session(session, at), output_of(planned, at)});
    }
    try {
        write(
            drafts, [&] { return stopping.why(); }, watchdog);
    } catch (Error& error) {
        settle(drafts, error);
        throw;
    }
}

}  // namespace shardweld::app
