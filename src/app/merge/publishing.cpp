#include "publishing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/report/model_card.hpp"
#include "app/report/report_json.hpp"
#include "app/report/run.hpp"
#include "app/report/summary.hpp"
#include "app/runtime/stop.hpp"
#include "app/settings/job.hpp"
#include "app/survey/input.hpp"
#include "core/text.hpp"
#include "execute/listeners/moment_signs.hpp"
#include "execute/reader.hpp"
#include "io/output_file.hpp"
#include "io/written.hpp"
#include "mpi/share.hpp"
#include "numeric/convert.hpp"
#include "plan/binding.hpp"
#include "plan/plan.hpp"
#include "publish/assets.hpp"
#include "publish/report_file.hpp"
#include "publish/target.hpp"

#include "completed.hpp"
#include "file_sums.hpp"
#include "move_tensors.hpp"
#include "preflight.hpp"
#include "result_check.hpp"
#include "resumption.hpp"

namespace shardweld::app {

namespace {

bool is_sum(const plan::Target& target) {
    return target.add != 0 && !target.is_copy && !target.mix;
}

/// Values of which the written ones do not give the stored ones.
Index count_changed(const plan::Target& target, ByteView stored) {
    const auto number = static_cast<float>(target.add);
    ByteBuffer written(as_size(target.volume()) * size_of(target.cast()));
    ByteBuffer back(stored.size());
    numeric::add_and_convert(target.stored, stored, number, target.cast(), written);
    numeric::add_and_convert(target.cast(), written, -number, target.stored, back);
    const std::size_t size = size_of(target.stored);
    Index n = 0;
    for (std::size_t at = 0; at < back.size(); at += size) {
        n += std::memcmp(&back[at], &stored[at], size) == 0 ? 0 : 1;
    }
    return n;
}

/// How many values change, by target; only of targets that this rank sees whole.
std::vector<std::pair<std::uint32_t, Index>> count_seen(const Run& run, const Output& output,
                                                        const Input& input) {
    execute::SourceFiles source = source_of(run, input);
    source.sums = nullptr;  // counted when they were read for the output
    execute::Reader reader(source, output.plan.limits.scratch);
    std::vector<std::pair<std::uint32_t, Index>> found;
    for (std::uint32_t at = 0; at < output.plan.targets.size(); ++at) {
        const plan::Target& target = output.plan.targets[at];
        const bool is_seen = std::ranges::all_of(target.operands, [&](const auto& operand) {
            return input.visibility.sees(run.comm.rank(), operand.file);
        });
        if (!is_sum(target) || !is_seen) {
            continue;
        }
        ByteBuffer stored(as_size(target.volume()) * size_of(target.stored));
        const std::array<layout::Range, 1> all{{{0, target.volume()}}};
        if (reader.gather(target.operands, all, static_cast<std::uint32_t>(size_of(target.stored)),
                          stored) == target.volume()) {
            found.emplace_back(at, count_changed(target, stored));
        }
    }
    return found;
}

/// Collective. A warning (`sums_rounded`) that names each of the output's tensors with values that
/// change, and how many; or that no rank sees whole. None for a model: there the sum is what the
/// framework computes with. Reads the stored elements of these tensors once more.
Warnings rounded_sums(const Run& run, const Output& output, const Input& input) {
    const auto& targets = output.plan.targets;
    if (!output.asked().is_training() || std::ranges::none_of(targets, is_sum)) {
        return {};
    }
    auto own = mpi::collectively_get(run.comm, [&] { return count_seen(run, output, input); });
    std::map<std::uint32_t, Index> changed;  // by target, as far as any rank sees them
    for (const auto& [target, n] : mpi::gather_all(run.comm, std::move(own))) {
        changed[target] = n;
    }
    std::vector<std::string> told;
    for (std::uint32_t at = 0; at < targets.size(); ++at) {
        auto* const found = find_value(changed, at);
        if (!is_sum(targets[at]) || (found != nullptr && *found == 0)) {
            continue;
        }
        told.push_back(printable(targets[at].name.text()) + " (" +
                       (found == nullptr ? "not looked at: no rank sees all of it"
                                         : std::to_string(*found) + " of " +
                                               std::to_string(targets[at].volume()) +
                                               " values, as " + torch_name(targets[at].cast())) +
                       ")");
    }
    if (told.empty()) {
        return {};
    }
    return {{"sums_rounded", "",
             counted(told.size(), "tensor") + " " + verb_of(told.size(), "is", "are") +
                 " kept as the weight and a number more or less, which is rounded: the way back "
                 "gives other values of " +
                 joined(told, ", ")}};
}

void say_notes(const Run& run, publish::PartialDirectory& partial) {
    for (const std::string& note : partial.take_notes()) {
        run.log.warning(note);
    }
}

void open_partial(const Run& run, Output& output) {
    mpi::on_first(run.comm, [&] {
        output.partial.emplace(publish::PartialDirectory::create(
            output.asked().directory, input_directories(run.job), run.job.run.overwrite,
            !run.job.run.restart, publish::this_process(job_name(), job_restarts())));
        say_notes(run, *output.partial);
        if (output.partial->is_taken_up()) {
            return;
        }
        if (run.job.run.resume) {
            run.log.info("nothing to resume for " + output.asked().directory.string() +
                         ": starting from the beginning");
        }
        stripe(output.partial->path(), run.job);
    });
    output.directory = publish::check_same_directory(
        run.comm, mpi::share(run.comm, 0,
                             [&] { return output.partial ? output.partial->path() : fs::path(); }));
}

/// Whether a journal may begin while tensors are moved: an earlier run has none yet, and none tells
/// what becomes of other outputs.
bool begins_late(const Run& run, const Merge& merge, const Output& output) {
    return !run.job.run.sync && merge.outputs.size() == 1 && !output.partial->is_taken_up() &&
           execute::is_noted_late(output.plan);
}

/// A run that resumes does it too: replicas may be compared less strictly from now on.
void begin_journal(const Run& run, const Output& output) {
    publish::write_header(*output.begun, output.partial->journal(), run.job.run.sync);
}

/// Files at their full size and a journal, the older run's where there was one.
void create_output(const Run& run, const Merge& merge, Output& output) {
    publish::RunFacts facts = run_facts(run, output, merge.input);
    output.resumption = take_up(run.comm, output.plan, facts, pointer_to(output.partial));
    output.n_known = output.resumption.n_known;
    if (compares_with_base(run.job, merge) || output.plan.placement.format->states_checksums() ||
        execute::MomentSigns(output.plan).is_needed()) {
        output.resumption.seen.clear();  // all bytes are looked at
    }
    if (const std::string taken = taken_text(output.resumption, output.plan); !taken.empty()) {
        run.log.info("continuing an earlier merge: " + taken +
                     " are written already (--restart starts from the beginning)");
    }
    create_files(run, output);
    output.begun = std::move(facts);
    mpi::on_first(run.comm, [&] {
        if (!begins_late(run, merge, output)) {
            begin_journal(run, output);
        }
        output.report.made_of = {output.partial->target().string(),
                                 config_digest(output.model.files.config_text),
                                 output.begun->options, output.begun->inputs};
    });
}

/// Collective. Writes the files that hold no tensors, on the rank that has read them.
void write_beside(const Run& run, int home, Output& output) {
    const std::string card = card_of(run, output);
    mpi::collectively_in_steps(run.comm, [&](const mpi::OnStep& step) {
        if (run.comm.rank() == home) {
            auto assets = output.assets();
            if (!card.empty()) {
                assets.push_back({kModelCard, {}, card});
            }
            output.beside =
                publish::write_assets(assets, *output.directory, run.job.run.sync, step);
        }
    });
}

/// Collective. Every file of the model, and which one it is.
io::Identities all_files(mpi::Comm& comm, int home, const Output& output) {
    io::Identities files;
    for (const std::size_t at : indices(output.created.files)) {
        files[output.plan.placement.files[at].name] = output.created.files[at];
    }
    const auto beside = mpi::share(comm, home, [&] {
        std::map<fs::path, io::Identity> identities;
        for (const io::WrittenFile& file : output.beside) {
            identities[file.name] = file.identity;
        }
        return identities;
    });
    for (const auto& [name, identity] : beside) {
        files[name] = identity;
        files[name].inode = output.created.has_numbers ? identity.inode : 0;
    }
    return files;
}

/// What is there beside the weights.
std::vector<std::string> side_files_of(const io::Identities& files,
                                       const outputs::Placement& placement) {
    std::set<std::string> of_tensors = collect_set(placement.files, &outputs::PlacedFile::name);
    std::vector<std::string> names;
    for (const auto& [name, identity] : files) {
        if (!of_tensors.contains(name.string())) {
            names.push_back(name.string());
        }
    }
    return names;
}

/// Behind everything else that is written or read: what is published is what was checked.
void check_output(const Run& run, const Output& output, const mpi::WhyStop& why_stop) {
    run.progress->begin("checking what was written");
    check_written(run, output, ticking(*run.progress, why_stop));
    mpi::collectively_in_steps(run.comm, [&](const mpi::OnStep& step) {
        for (const io::WrittenFile& file : output.beside) {
            io::require_as_written(*output.directory, file,
                                   {true, run.job.run.paranoid, [&](Bytes) { step(); }});
        }
    });
    run.progress->end();
    run.watch->lap("check");
}

/// The run's report, the last file of a model: what tells of it appears with it. On the first rank.
void write_kept_report(const Run& run, Output& output) {
    if (!output.asked().keeps_report) {
        return;
    }
    io::NotedFile file(io::OutputFile::create(*output.directory, publish::kKeptReport),
                       publish::kKeptReport);
    output.report.is_published = true;  // when anybody reads it
    const std::string text = to_json(*run.report, output.report);
    output.report.is_published = false;
    file.write(0, std::as_bytes(std::span(text)));
    const io::WrittenFile written = file.finish(run.job.run.sync);
    io::require_as_written(*output.directory, written, {true, run.job.run.paranoid});
    output.files[written.name] = written.identity;
}

/// Whether the same command may do better another time: not where the checkpoint is wrong, or has
/// become another.
bool can_go_on(ErrorCode code, int rank, const Merge& merge, const Output& output) {
    return code != ErrorCode::mismatch && code != ErrorCode::corrupt &&
           code != ErrorCode::unsupported &&
           !has_changed_input(*output.begun, output.plan.visibility, rank, merge.input.directory);
}

void say_summary(const Run& run, const OutputReport& report) {
    const CheckCrc checks = run.job.run.check_crc;
    const auto counts = run.report->crc.value_or(execute::RecordCounts());
    const auto& phases = run.watch->phases();
    if (run.job.run.progress == ProgressStyle::json && run.log.is_speaker()) {
        run.log.write_object(summary_json(*run.report, report, phases));
        return;
    }
    for (const Headline& line :
         summary_lines(*run.report, report, phases, checksums_text(counts, checks))) {
        run.log.info(line);
    }
    run.log.debug(speed_text(*run.report, report, phases));
    if (const std::string text = text_of(counts, checks); !text.empty()) {
        run.log.debug("checked: " + text);
    }
}

}  // namespace

std::string card_of(const Run& run, const Output& output) {
    // Ranks that did not plan know nothing of the model.
    return mpi::share(run.comm, 0, [&] {
        if (!output.gets_card(run.job)) {
            return std::string();
        }
        return model_card(*run.report, output.report,
                          output.model.config.text("_name_or_path").value_or(""));
    });
}

void stage_outputs(const Run& run, Merge& merge) {
    for (Output& output : merge.outputs) {
        open_partial(run, output);
    }
    for (Output& output : merge.outputs) {
        create_output(run, merge, output);
    }
}

void write_tensors(const Run& run, Merge& merge, const mpi::WhyStop& why_stop) {
    std::deque<ResultCheck> checks;
    std::vector<execute::RunOptions> options;
    for (Output& output : merge.outputs) {
        std::optional<Bytes> base_memory;
        if (checks.empty() && compares_with_base(run.job, merge)) {
            base_memory = merge.choice_for(run.job, merge.resources()).memory_limit;
        }
        ResultCheck& check = checks.emplace_back(run, output, base_memory);
        execute::RunOptions& how = options.emplace_back();
        how.why_stop = why_stop;
        how.made = output.created.files;
        how.resumption = std::move(output.resumption);
        if (output.partial && begins_late(run, merge, output)) {
            how.begin_journal = [&run, &output] { begin_journal(run, output); };
        }
        how.on_slice = [&check](const plan::Slice& slice, ByteView bytes) {
            check.add(slice, bytes);
        };
        how.on_seen = [&check](const plan::Slice& slice, const numeric::Census& census) {
            check.add(slice, census);
        };
    }
    move_tensors(run, merge, std::move(options));
    for (const std::size_t at : indices(checks)) {
        Output& output = merge.outputs[at];
        checks[at].complete_files();
        warn(run, output.report, checks[at].finish());
        warn(run, output.report, rounded_sums(run, output, merge.input));
        if (const auto problems = strict_problems(run, output.report); !problems.empty()) {
            throw Error(all_of(problems, "warnings"));
        }
    }
}

void complete_outputs(const Run& run, Merge& merge, const mpi::WhyStop& why_stop) {
    const int home = merge.input.home;
    for (Output& output : merge.outputs) {
        write_beside(run, home, output);
        output.files = all_files(run.comm, home, output);
        output.report.side_files = side_files_of(output.files, output.plan.placement);
        hash_files(run, merge, output, why_stop);
        sum_rests(run, merge, output, why_stop);
        check_output(run, output, why_stop);
    }
}

void publish_outputs(const Run& run, Merge& merge) {
    if (merge.first().asked().keeps_report) {
        run.report->phases = run.watch->phases();
        run.report->rank_phases = mpi::gather(run.comm, run.watch->phases());
    }
    mpi::on_first(run.comm, [&] {
        for (Output& output : merge.outputs) {
            write_kept_report(run, output);
        }
        // As long as the journal of the first is there, a later run knows what has appeared.
        for (std::size_t at = merge.outputs.size(); at-- > 0;) {
            Output& output = merge.outputs[at];
            if (at > 0) {
                merge.first().partial->note_publishing(*output.partial);
            }
            output.partial->commit(output.files, run.job.run.sync);
            output.report.is_published = true;
            say_notes(run, *output.partial);
        }
    });
    run.watch->lap("publish");
}

void keep_for_later(const Run& run, const Merge& merge, Error& error) {
    for (const Output& output : merge.outputs) {
        const bool is_begun = output.begun && output.partial;
        if (is_begun && !can_go_on(error.code(), run.comm.rank(), merge, output)) {
            output.partial->forget_work();
        }
        if (is_begun && error.code() == ErrorCode::stopped) {
            stamp_output(output.plan, *output.partial);
        }
        if (is_begun && &output == &merge.first()) {
            tell_kept(error, output.plan, *output.partial, output.n_known);
        }
    }
}

void say_summaries(const Run& run) {
    for (const OutputReport& output : run.report->outputs) {
        say_summary(run, output);
    }
}

}  // namespace shardweld::app
