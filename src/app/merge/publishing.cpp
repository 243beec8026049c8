#include "publishing.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/compare/base_summary.hpp"
#include "app/compare/comparison.hpp"
#include "app/compare/model_directory.hpp"
#include "app/family/optimizer_text.hpp"
#include "app/report/model_card.hpp"
#include "app/report/report.hpp"
#include "app/report/report_json.hpp"
#include "app/report/summary.hpp"
#include "app/settings/job.hpp"
#include "core/text.hpp"
#include "execute/comparer.hpp"
#include "execute/listeners/moment_signs.hpp"
#include "execute/listeners/stated_sums.hpp"
#include "execute/listeners/tensor_census.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/written.hpp"
#include "models/saved_form.hpp"
#include "mpi/share.hpp"
#include "plan/binding.hpp"
#include "plan/plan.hpp"
#include "publish/assets.hpp"
#include "publish/report_file.hpp"
#include "publish/target.hpp"

#include "completed.hpp"
#include "file_sums.hpp"
#include "moving.hpp"
#include "preflight.hpp"
#include "resumption.hpp"
#include "rounded_sums.hpp"
#include "state_values.hpp"

namespace shardweld::app {

namespace {

/// What one side may lack: what --include and --exclude leave out, an adapter beside the model, and
/// the heads by which a value model and a language model differ.
std::function<bool(const std::string&)> left_aside(const Output& output) {
    std::set<std::string> beside;
    for (const plan::Target& target : output.plan.targets) {
        if (!target.file.empty()) {
            beside.insert(target.name);
        }
    }
    return [beside = std::move(beside), is_selected = selects(output.session.job.model.selection),
            is_value = output.model.prepared.is_value](const std::string& name) {
        const bool is_head = name.ends_with("lm_head.weight") || name.ends_with("score.weight");
        return (is_value && is_head) || beside.contains(name) || !is_selected(name);
    };
}

/// What both sides say of tied heads; where the result says nothing, the base speaks for it.
StatedTies ties_of(const Output& output, const ModelDirectory& base) {
    const auto ties = output.ties();
    return {ties ? ties : base.ties(), base.ties()};
}

/// The base, and the comparison under way.
class BaseComparison {
  public:
    /// Collective. Reads the base's metadata. Error(not_found) when a rank does not see it.
    explicit BaseComparison(Output& output);

    /// An OnSlice.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes) {
        comparer_.add(slice, bytes);
    }

    /// Collective, once. Error(corrupt) when what was read of the base is not as its checksums say.
    BaseSummary finish(Session& session);

  private:
    std::string directory_;
    std::function<bool(const std::string&)> is_aside_;
    ModelDirectory base_;
    Matching matching_;
    execute::Comparer comparer_;
};

/// What is looked at in the bytes of one output.
class ResultCheck {
  public:
    /// Collective. `output` must outlive it. `has_base`: it is compared with --base.
    ResultCheck(Output& output, bool has_base);

    /// An OnSlice.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes);

    /// An OnSeen; not where the base is compared.
    void add(const plan::Slice& slice, const numeric::Census& census) {
        census_.add(slice, census);
    }

    /// Collective. Puts what was found into the report; returns what is worth a warning.
    std::vector<Warning> finish();

    /// Collective. Completes the files of `draft`, the output's, where they state checksums.
    void complete_files(Draft& draft) const;

  private:
    /// Collective. Whether a run can go on with the moments of an optimizer. Error as moments_at.
    std::vector<Warning> judge_moments(const CensusByTensor& census);

    Output& output_;
    execute::TensorCensus census_;
    execute::MomentSigns signs_;
    std::optional<execute::WrittenSums> sums_;
    std::optional<BaseComparison> base_;
};

BaseComparison::BaseComparison(Output& output)
    : directory_(output.session.job.model.base->string()),
      is_aside_(left_aside(output)),
      base_(read_model_directory(output.session, *output.session.job.model.base)),
      matching_(match(output.plan.targets, base_.tensors, ties_of(output, base_))),
      comparer_(output.plan, {source_of(output.session, base_.input), &base_.tensors},
                matching_.pairs, {0, 0}, output.choice.memory_limit) {
    base_.use_records_of(matching_.pairs);
}

BaseSummary BaseComparison::finish(Session& session) {
    (void)check_what_was_read(session, base_.input, {});
    return summary_of(
        directory_, comparison_result(std::move(matching_), comparer_.gather(session.comm), false),
        is_aside_);
}

/// Whether what a merge writes is compared with --base: not where the base itself is what is
/// written, or a training checkpoint.
bool compares_with_base(const Planned& planned) {
    const Job& job = planned.first().session.job;
    return job.model.base && !planned.first().session.output.is_training() &&
           (!planned.holds_adapter_only || job.model.lora == Lora::fold);
}

ResultCheck::ResultCheck(Output& output, bool has_base)
    : output_(output), census_(output.plan), signs_(output.plan) {
    if (output.plan.placement.format->states_checksums()) {
        sums_.emplace(output.plan);
    }
    if (has_base) {
        base_.emplace(output);
    }
}

void ResultCheck::add(const plan::Slice& slice, std::span<const std::byte> bytes) {
    const plan::Target& target = output_.plan.target_of(slice.tensor);
    if (target.zeros.empty() || target.n_zeros() < target.volume()) {
        census_.add(slice, bytes);  // padding alone is zero, and nothing to be told
    }
    signs_.add(slice, bytes);
    if (sums_) {
        sums_->add(slice, bytes);
    }
    if (base_) {
        base_->add(slice, bytes);
    }
}

void ResultCheck::complete_files(Draft& draft) const {
    if (sums_) {
        sums_->write_frames(output_.session.comm, *draft.directory, output_.session.job.run.sync,
                            draft.made.created);
    }
}

std::vector<Warning> ResultCheck::finish() {
    Session& session = output_.session;
    OutputReport& report = session.report;
    std::set<std::string> changed;
    std::vector<Warning> of_base;
    if (base_) {
        report.base = base_->finish(session);
        changed.insert(report.base->changed.begin(), report.base->changed.end());
        session.log.info(text_of(*report.base));
        of_base = base_warnings(*report.base);
    }
    auto census = census_.gather(session.comm);
    const std::vector<Warning> of_states = judge_moments(census);
    const Sanity states = judge_states(output_.plan, census);
    report.sanity = judge_census(output_.plan.targets, census, changed);
    report.sanity.tensors.insert(report.sanity.tensors.end(), states.tensors.begin(),
                                 states.tensors.end());
    std::vector<Warning> warnings = sanity_warnings(report.sanity);
    warnings.insert(warnings.end(), of_states.begin(), of_states.end());
    if (output_.model.bound.is_ordered) {
        const auto by_order = resting_on_order(output_.plan, census);
        warnings.insert(warnings.end(), by_order.begin(), by_order.end());
    }
    warnings.insert(warnings.end(), of_base.begin(), of_base.end());
    return warnings;
}

/// Only ranks that planned know the step.
std::vector<Warning> ResultCheck::judge_moments(const CensusByTensor& census) {
    if (!signs_.is_needed()) {
        return {};
    }
    mpi::Comm& comm = output_.session.comm;
    const execute::MomentSigns::Found signs = signs_.gather(comm);
    return mpi::share(comm, 0, [&] {
        const auto& optimizer = output_.model.bound.optimizer;
        return moments_at(optimizer ? optimizer->step : 0, output_.plan, census, signs);
    });
}

void say_notes(Session& session, publish::PartialDirectory& partial) {
    for (const std::string& note : partial.take_notes()) {
        session.log.warning(note);
    }
}

void open_partial(Draft& draft) {
    Session& session = draft.output.session;
    const Job& job = session.job;
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() != 0) {
            return;
        }
        draft.partial.emplace(publish::PartialDirectory::create(target_request(session)));
        say_notes(session, *draft.partial);
        if (draft.partial->is_taken_up()) {
            return;
        }
        if (job.run.resume) {
            session.log.info("nothing to resume for " + session.output.directory.string() +
                             ": starting from the beginning");
        }
        stripe(draft.partial->path(), job);
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
    publish::RunFacts facts =
        run_facts(session, output.plan, source_of(session, input), input.digests);
    draft.resumption =
        take_up(session.comm, output.plan, facts, draft.partial ? &*draft.partial : nullptr);
    draft.n_known = draft.resumption.n_known;
    if (compares_with_base(draft.planned) || output.plan.placement.format->states_checksums() ||
        execute::MomentSigns(output.plan).is_needed()) {
        draft.resumption.seen.clear();  // all bytes are looked at
    }
    say_taken(draft);
    draft.made.created = create_files(output, *draft.directory);
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            start_journal(facts, *draft.partial, session.job.run.sync);
            session.report.made_of = {draft.partial->target().string(),
                                      config_digest(output.model.files.config_text), facts.options,
                                      facts.inputs};
        }
    });
    draft.begun = std::move(facts);
}

/// Collective. The text of README.md, which the first rank's reports tell; "" where none is made.
std::string card_of(const Draft& draft) {
    const Output& output = draft.output;
    const Session& session = output.session;
    // Ranks that did not plan know nothing of the model.
    return mpi::share(session.comm, 0, [&] {
        if (!output.gets_card()) {
            return std::string();
        }
        const Described model{std::string(output.plan.placement.format->name()),
                              output.model_class(),
                              output.model.prepared.config.text("_name_or_path").value_or(""),
                              size_of_model(output.plan.targets), session.report.made_of->options};
        return model_card(session.run, session.report, model);
    });
}

/// Collective. Writes the files that hold no tensors; returns them on the rank that wrote them.
std::vector<io::WrittenFile> write_beside(const Draft& draft) {
    const Session& session = draft.output.session;
    const std::string card = card_of(draft);
    std::vector<io::WrittenFile> beside;
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        if (session.comm.rank() == draft.planned.input.home) {
            auto assets = draft.output.assets();
            if (!card.empty()) {
                assets.push_back({kModelCard, {}, card});
            }
            beside = publish::write_assets(assets, *draft.directory, session.job.run.sync, step);
        }
    });
    return beside;
}

/// Collective. Every file of the model, and which one it is.
io::Identities all_files(const Draft& draft) {
    const OutputContent& made = draft.made;
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
    std::set<std::string> of_tensors;
    for (const outputs::PlacedFile& file : placement.files) {
        of_tensors.insert(file.name);
    }
    std::vector<std::string> names;
    for (const auto& [name, identity] : files) {
        if (!of_tensors.contains(name.string())) {
            names.push_back(name.string());
        }
    }
    return names;
}

/// Behind everything else that is written or read: what is published is what was checked.
void check(const Draft& draft, const mpi::WhyStop& why_stop) {
    const Session& session = draft.output.session;
    const io::Directory& directory = *draft.directory;
    const OutputContent& made = draft.made;
    session.progress.begin("checking what was written");
    check_written(draft.output, directory, made.created, made.written,
                  ticking(session.progress, why_stop));
    mpi::collectively_in_steps(session.comm, [&](const mpi::OnStep& step) {
        for (const io::WrittenFile& file : made.beside) {
            io::require_as_written(directory, file,
                                   {true, session.job.run.paranoid, [&](Bytes) { step(); }});
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
    hash_files(draft, why_stop);
    sum_rests(draft, why_stop);
    check(draft, why_stop);
}

/// The run's report, the last file of a model: what tells of it appears with it. On the first rank.
void write_kept_report(Draft& draft) {
    const Session& session = draft.output.session;
    if (!session.output.keeps_report) {
        return;
    }
    io::NotedFile file(io::OutputFile::create(*draft.directory, publish::kKeptReport),
                       publish::kKeptReport);
    session.report.is_published = true;  // when anybody reads it
    const std::string text = to_json(session.run, session.report);
    session.report.is_published = false;
    file.write(0, std::as_bytes(std::span(text)));
    const io::WrittenFile written = file.finish(session.job.run.sync);
    io::require_as_written(*draft.directory, written, {true, session.job.run.paranoid});
    draft.files[written.name] = written.identity;
}

/// Whether the same command may do better another time: not where the checkpoint is wrong, or has
/// become another.
bool can_go_on(ErrorCode code, const Draft& draft) {
    return code != ErrorCode::mismatch && code != ErrorCode::corrupt &&
           code != ErrorCode::unsupported &&
           !has_changed_input(*draft.begun, draft.output.plan.visibility,
                              draft.output.session.comm.rank(), draft.planned.input.directory);
}

/// "fp8-channel", "float32"; "" where nothing is asked for.
std::string form_of(const JobOutput& output) {
    return output.is_training() ? output.form
           : output.quantise    ? std::string(facts_of(*output.quantise).name)
           : output.dtype       ? std::string(torch_name(*output.dtype))
                                : "as stored";
}

/// `checks`: when the input's checksums were looked at.
void say_summary(const Output& output, bool is_first, CheckCrc checks) {
    const Session& session = output.session;
    const JobOutput& asked = session.output;
    const auto counts = session.run.crc.value_or(execute::RecordCounts());
    const Finished finished{asked.directory,
                            is_first ? "" : form_of(asked),
                            std::string(output.plan.placement.format->name()),
                            output.model_class(),
                            size_of_model(output.plan.targets),
                            checksums_text(counts, checks),
                            asked.keeps_report};
    const auto& phases = session.watch.phases();
    if (session.job.run.progress == ProgressStyle::json && session.log.is_speaker()) {
        session.log.write_object(summary_json(session.run, session.report, phases, finished));
        return;
    }
    for (const Headline& line : summary_lines(session.run, session.report, phases, finished)) {
        session.log.info(line);
    }
    session.log.debug(speed_text(session.run, session.report, phases));
    if (const std::string text = text_of(counts, checks); !text.empty()) {
        session.log.debug("checked: " + text);
    }
}

}  // namespace

void begin_drafts(std::vector<Draft>& drafts) {
    // The end's lines ask for it: memory that runs out then would end a run whose model is there.
    (void)models::saving_types();
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
        checks[at].complete_files(drafts[at]);
        warn(session, checks[at].finish());
        warn(session, rounded_sums(drafts[at].output, planned.input));
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
    if (session.output.keeps_report) {
        session.run.phases = session.watch.phases();
        session.run.rank_phases = mpi::gather(session.comm, session.watch.phases());
    }
    mpi::collectively(session.comm, [&] {
        for (Draft& draft : drafts) {
            if (draft.partial) {
                write_kept_report(draft);
            }
        }
        // As long as the journal of the first is there, a later run knows what has appeared.
        for (std::size_t at = drafts.size(); at-- > 0;) {
            Draft& draft = drafts[at];
            if (!draft.partial) {
                continue;
            }
            if (at > 0) {
                drafts.front().partial->note_publishing(*draft.partial);
            }
            draft.partial->commit(draft.files, session.job.run.sync);
            draft.output.session.report.is_published = true;
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
        say_summary(output, &output == &planned.first(), planned.first().session.job.run.check_crc);
    }
}

}  // namespace shardweld::app
