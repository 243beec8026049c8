#include "publishing.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "app/report/summary.hpp"
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

namespace shardweld::app {

namespace {

void say_notes(Session& session, publish::PartialDirectory& partial) {
    for (const std::string& note : partial.take_notes()) {
        session.log.warning(note);
    }
}

void open_partial(Draft& draft) {
    Session& session = draft.output.session;
    const Options& options = session.options;
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() != 0) {
            return;
        }
        draft.partial.emplace(publish::PartialDirectory::create(target_request(session)));
        say_notes(session, *draft.partial);
        if (draft.partial->is_taken_up()) {
            return;
        }
        if (options.resume) {
            session.log.info("nothing to resume for " + session.output.directory.string() +
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
    if (const std::string taken = taken_text(draft.resumption, draft.output.plan); !taken.empty()) {
        draft.output.session.log.info("continuing an earlier merge: " + taken +
                                      " are written already (--restart starts from the beginning)");
    }
}

/// Files at their full size and a journal, the older run's where there was one.
void create_draft(Draft& draft) {
    Output& output = draft.output;
    Session& session = output.session;
    const Input& input = draft.planned.input;
    publish::RunFacts facts = run_facts(session.comm, session.options, output.plan,
                                        source_of(session, input), input.digests);
    draft.resumption =
        take_up(session.comm, output.plan, facts, draft.partial ? &*draft.partial : nullptr);
    draft.n_known = draft.resumption.n_known;
    if (compares_with_base(draft.planned)) {
        draft.resumption.seen.clear();  // all bytes are compared
    }
    say_taken(draft);
    draft.made.created = create_files(output, *draft.directory);
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            start_journal(facts, *draft.partial, session.options.sync);
            session.report.made_of = {draft.partial->target().string(),
                                      config_digest(output.model.files.config_text), facts.options,
                                      facts.inputs};
        }
    });
    draft.begun = std::move(facts);
}

/// What is no tensor; on the rank that does so.
std::vector<io::WrittenFile> write_beside(const Draft& draft) {
    const Session& session = draft.output.session;
    std::vector<io::WrittenFile> beside;
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        if (session.comm.rank() == draft.planned.input.home) {
            beside = publish::write_assets(draft.output.assets(), *draft.directory,
                                           session.options.sync, step);
        }
    });
    return beside;
}

/// Collective. Every file of the model, and which one it is.
io::Identities all_files(const Draft& draft) {
    const WrittenOutput& made = draft.made;
    io::Identities files;
    for (std::size_t at = 0; at < made.created.files.size(); ++at) {
        files[draft.output.plan.placement.files[at].name] = made.created.files[at];
    }
    const int home = draft.planned.input.home;
    const auto beside = mpi::share(draft.output.session.comm, home, [&] {
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
void hash(const Draft& draft, const mpi::WhyStop& why_stop) {
    const Session& session = draft.output.session;
    if (!session.options.sha256) {
        return;
    }
    const auto open = [&](const std::string& name) -> std::optional<io::InputFile> {
        io::require_same_file(*draft.directory, name, draft.files.at(name));
        return io::InputFile::open(*draft.directory, name);
    };
    const auto names = [&] {
        std::vector<std::string> all;
        for (const auto& [name, identity] : draft.files) {
            all.push_back(name.string());
        }
        return all;
    };
    session.report.files =
        hash_files(session.comm, open, draft.planned.input.home, names, session.throttle.get(),
                   why_stop, shown(session.progress, "hashing files"));
    session.watch.lap("sha256");
}

/// Behind everything else that is written or read: what is published is what was checked.
void check(const Draft& draft, const mpi::WhyStop& why_stop) {
    const Session& session = draft.output.session;
    const io::Directory& directory = *draft.directory;
    const WrittenOutput& made = draft.made;
    session.progress.begin("checking what was written");
    check_written(draft.output, directory, made.created, made.written,
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
    const Output& output = draft.output;
    draft.made.beside = write_beside(draft);
    draft.files = all_files(draft);
    output.session.report.side_files = side_files_of(draft.files, output.plan.placement);
    hash(draft, why_stop);
    check(draft, why_stop);
}

/// Whether the same command may do better another time: not where the checkpoint is wrong, or has
/// become another.
bool can_go_on(ErrorCode code, const Draft& draft) {
    return code != ErrorCode::mismatch && code != ErrorCode::corrupt &&
           code != ErrorCode::unsupported &&
           !has_changed_input(*draft.begun, draft.output.plan.visibility,
                              draft.output.session.comm.rank(), draft.planned.input.directory);
}

/// What was made, in place of a line for each part.
void say_summary(const Output& output) {
    const Session& session = output.session;
    const OutputRequest& asked = session.output;
    const std::vector<std::string> classes = output.model.prepared.config.architectures();
    const Finished finished{
        asked.directory, asked.report.value_or(""), classes.empty() ? "" : classes.front(),
        text_of(session.run.crc.value_or(execute::RecordCounts()), session.options.check_crc),
        output.plan.placement.format->name() == outputs::default_format().name()};
    if (session.options.progress == ProgressStyle::json && session.log.is_speaker()) {
        session.log.write_object(
            summary_json(session.run, session.report, session.watch.phases(), finished));
    } else {
        session.log.info(
            summary_text(session.run, session.report, session.watch.phases(), finished));
    }
}

}  // namespace

void begin_drafts(std::vector<Draft>& drafts) {
    for (Draft& draft : drafts) {
        open_partial(draft);
    }
    for (Draft& draft : drafts) {
        create_draft(draft);
    }
}

void write_tensors(Planned& planned, std::vector<Draft>& drafts, const mpi::WhyStop& why_stop) {
    std::deque<ResultCheck> checks;
    std::vector<Moving> moving;
    for (Draft& draft : drafts) {
        const bool has_base = checks.empty() && compares_with_base(planned);
        ResultCheck& check = checks.emplace_back(draft.output, has_base);
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
        moving.push_back({*draft.directory, std::move(run)});
    }
    auto written = move_tensors(planned, std::move(moving));
    for (std::size_t at = 0; at < drafts.size(); ++at) {
        const Session& session = drafts[at].output.session;
        drafts[at].made.written = std::move(written[at]);
        warn(session, checks[at].finish());
        if (const auto problems = strict_problems(session); !problems.empty()) {
            throw Error(all_of(problems, "warnings"));
        }
    }
}

void complete_drafts(std::vector<Draft>& drafts, const mpi::WhyStop& why_stop) {
    for (Draft& draft : drafts) {
        complete(draft, why_stop);
    }
}

void publish_drafts(std::vector<Draft>& drafts) {
    Session& session = drafts.front().output.session;
    mpi::collectively(session.comm, [&] {
        // As long as the journal of the first is there, a later run knows what has appeared.
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

void keep_for_later(const std::vector<Draft>& drafts, Error& error) {
    for (const Draft& draft : drafts) {
        const bool is_begun = draft.begun && draft.partial;
        if (is_begun && !can_go_on(error.code(), draft)) {
            draft.partial->forget_work();
        }
        if (is_begun && error.code() == ErrorCode::stopped) {
            stamp_output(draft.output.plan, *draft.partial);
        }
        if (is_begun && &draft == &drafts.front()) {
            tell_kept(error, draft.output.plan, *draft.partial, draft.n_known);
        }
    }
}

void say_summaries(const Planned& planned) {
    for (const Output& output : planned.outputs) {
        say_summary(output);
    }
}

void report_speed(const Output& output, const std::optional<MeasuredRoof>& roof) {
    const Session& session = output.session;
    if (roof) {
        session.report.roof = compare_with_roof(*roof, session.watch.phases(), output.plan);
        session.log.info(text_of(*session.report.roof));
    }
}

}  // namespace shardweld::app
