#include "steward.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/delta/versions.hpp"
#include "app/merge/uploading.hpp"
#include "app/messages/table.hpp"
#include "app/runtime/stop.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"
#include "publish/abandoned.hpp"
#include "publish/traces.hpp"

#include "keeping.hpp"
#include "then.hpp"

namespace shardweld::app::watching {

namespace {

using nlohmann::ordered_json;

/// The run's directory may tell of a change between two looks. At least this part of the interval
/// lies between looks all the same.
constexpr double kLeastPart = 0.25;

/// The model is there, and not on the Hub.
bool is_of_upload(ErrorCode code) {
    return code >= ErrorCode::no_client && code <= ErrorCode::interrupted;
}

/// Codes of what may be over the next time.
bool may_pass(ErrorCode code) {
    constexpr std::array kPassing = {ErrorCode::io, ErrorCode::space, ErrorCode::locked};
    return is_of_upload(code) || std::ranges::count(kPassing, code) > 0;
}

/// Codes of a merge of a step that lacks something.
bool tells_incomplete(ErrorCode code) {
    return code == ErrorCode::not_found || code == ErrorCode::corrupt ||
           code == ErrorCode::mismatch;
}

std::vector<fs::path> outputs_of(const Options& options) {
    std::vector<fs::path> outputs{io::resolved(options.target_dir)};
    std::ranges::transform(options.also, std::back_inserter(outputs),
                           [](const OutputRequest& also) { return io::resolved(also.directory); });
    return outputs;
}

/// The run's directory, which need not be there yet; the one above it must.
fs::path checked_run(const Options& options, const std::vector<fs::path>& outputs) {
    fs::path run = io::resolved(options.local_dir);
    if (io::kind_at(run) != io::FileKind::none && !io::is_directory(run)) {
        throw Error(ErrorCode::usage, run.string() + " is a file",
                    "name the directory in which the training run saves its steps");
    }
    if (!io::is_directory(run) && !io::is_directory(run.parent_path())) {
        throw Error(ErrorCode::not_found, "there is no directory " + run.string(),
                    "name the directory in which the training run saves its steps");
    }
    if (const auto step = formats::parse_step(run.filename().string()); step && step->iteration) {
        throw Error(ErrorCode::usage, run.string() + " is a step itself",
                    "watch the directory above it, or merge this one");
    }
    if (std::ranges::count(outputs, run) > 0) {
        throw Error(ErrorCode::usage, run.string() + " cannot be watched and written to",
                    "name another directory for the outputs");
    }
    return run;
}

/// With the directories that are missing.
publish::TargetLock locked(const fs::path& out) {
    if (io::kind_at(out) != io::FileKind::none && !io::is_directory(out)) {
        throw Error(ErrorCode::target, out.string() + " is not a directory",
                    "name a directory for the outputs");
    }
    fs::create_directories(out);
    try {
        return {out, publish::this_process(job_name(), job_restarts())};
    } catch (Error& error) {
        if (error.code() == ErrorCode::locked) {
            error.set_hint("there is one watch for each OUT: end that one, or take another OUT");
        }
        throw;
    }
}

/// Directories that hold no steps of the run.
std::vector<fs::path> with(std::vector<fs::path> outputs, const fs::path& deltas) {
    outputs.push_back(deltas);
    return outputs;
}

/// verl's, where the actor is what is trained.
std::string role_in(const fs::path& step) {
    return io::is_directory(step / "actor") && io::is_directory(step / "critic") ? "actor" : "";
}

std::string names_in(const std::map<std::string, std::string>& steps) {
    std::vector<std::string> names;
    std::ranges::transform(steps, std::back_inserter(names), [](auto& step) { return step.first; });
    std::ranges::sort(names, natural_less);
    return listed(names);
}

}  // namespace

Steward::Steward(const Options& options, Log& log)
    : options_(options),
      request_(options.watch),
      log_(log),
      outputs_(outputs_of(options)),
      run_(checked_run(options, outputs_)),
      lock_(locked(outputs_.front())),
      diary_(outputs_.front(), log, options.progress == ProgressStyle::json),
      chain_(options, outputs_.front(), diary_.earlier()),
      lookout_(run_, with(outputs_, chain_.directory()), options.watch),
      unsent_(diary_.earlier().unsent),
      unfollowed_(diary_.earlier().unfollowed) {
    require_then(request_);
    for (const auto& [name, print] : diary_.earlier().removed) {
        lookout_.leave(name, print);
    }
    for (const fs::path& out : outputs_) {
        if (io::is_directory(out)) {
            finish_removals(out);
        }
    }
    log_.info("watching " + run_.string() + " every " + duration_text(request_.interval));
    diary_.write("watching", {{"run", run_.string()},
                              {"out", outputs_.front().string()},
                              {"interval_s", request_.interval}});
    if (!io::is_directory(run_)) {
        log_.warning(run_.string() + " is not there yet: waiting for it");
    }
    follow_earlier();
}

std::vector<fs::path> Steward::outputs_named(const std::string& name) const {
    std::vector<fs::path> named;
    std::ranges::transform(outputs_, std::back_inserter(named),
                           [&](const fs::path& out) { return out / name; });
    return named;
}

bool Steward::may_end(const Look& look, bool is_asked) const {
    const bool is_idle = request_.idle_exit && look.idle_s >= *request_.idle_exit;
    return !look.next && !look.is_awaited && (is_idle || is_asked);
}

void Steward::keep_books(const Look& look) {
    for (const fs::path& path : look.doubles) {
        log_.error(Error(ErrorCode::usage,
                         path.string() + " has the name of another step of " + run_.string(),
                         "watch the directory that it lies in, with an OUT of its own"));
        unmade_[path.string()] = "another step has its name";
    }
    for (const std::string& news : look.news) {
        log_.info(news);
        diary_.write("waiting", {{"why", news}});
    }
    counts_.steps = static_cast<Index>(look.n_steps);
    counts_.waiting = static_cast<Index>(look.n_waiting);
    counts_.last_look = static_cast<double>(std::time(nullptr));
    if (request_.metrics) {
        if (const auto failure =
                mpi::error_of([&] { write_metrics(counts_, *request_.metrics); })) {
            log_.warning("the metrics are not written: " + failure->full_text());
        }
    }
}

/// A file system that fails for a while ends no watch.
bool Steward::sees_run(Look& look) {
    const auto failure = mpi::error_of([&] { look = lookout_.look(wall_seconds()); });
    const std::string why = failure ? failure->full_text() : "";
    if (why != unseen_ && failure) {
        log_.warning("the run cannot be looked at: " + why);
    }
    unseen_ = why;
    return !failure;
}

Order Steward::next(const std::function<bool()>& is_over) {
    step_.reset();
    for (; !is_over(); next_look_ = wall_seconds() + request_.interval) {
        wake_.wait(request_.interval * kLeastPart, next_look_ - wall_seconds(), is_over);
        // Asked first: what is complete when the file comes is made.
        const bool is_asked = request_.until && io::kind_at(*request_.until) != io::FileKind::none;
        Look look;
        if (!sees_run(look)) {
            continue;
        }
        keep_books(look);
        if (may_end(look, is_asked)) {
            return {};
        }
        if (look.next) {
            step_ = std::move(look.next);
            break;
        }
        wake_.follow(run_);
        for (const fs::path& directory : lookout_.directories()) {
            wake_.follow(directory);
        }
    }
    if (!step_ || is_over()) {
        step_.reset();
        return {};
    }
    const StepPlace& place = step_->place;
    const fs::path output = outputs_.front() / place.name;
    if (step_->was_made || options_.overwrite || io::kind_at(output) == io::FileKind::none) {
        log_.info("merging " + place.name);
        diary_.write("merging", {{"step", place.name},
                                 {"number", place.number},
                                 {"source", place.path.string()},
                                 {"output", output.string()},
                                 {"upload", uploads(options_)},
                                 {"then", !request_.then.empty()}});
        unfollowed_.insert(place.name);
    }
    return {false,
            place.name,
            place.path.lexically_relative(run_),
            options_.role.empty() ? role_in(place.path) : "",
            place.number,
            unsent_.contains(place.name),
            step_->was_made || may_replace(place.name),
            chain_.order_for(place)};
}

/// Outputs that were made of this step with the same options, when its files were others.
bool Steward::may_replace(const std::string& name) const {
    const std::vector<fs::path> outputs = outputs_named(name);
    return was_made_with(options_.output_options, outputs.front(), run_) &&
           std::all_of(outputs.begin() + 1, outputs.end(), [&](const fs::path& output) {
               return io::kind_at(output) == io::FileKind::none || is_own_output(output, run_);
           });
}

void Steward::finish(const Merged& merged) {
    next_look_ = 0;
    if (!step_) {
        return;
    }
    if (merged.failure) {
        (void)take_delta(merged);
        take_failure(*merged.failure);
        return;
    }
    const ReadyStep step = *step_;
    lookout_.settle(step, Lookout::End::made, wall_seconds());
    unmade_.erase(step.place.name);
    unsent_.erase(step.place.name);
    if (merged.was_complete) {
        ++counts_.complete;
        diary_.write("complete", {{"step", step.place.name}, {"number", step.place.number}});
    } else {
        count_made(merged);
        unfollowed_.insert(step.place.name);
    }
    const bool is_delivered = take_delta(merged);
    if (is_delivered && unfollowed_.contains(step.place.name)) {
        follow(step.place.name);
    }
    remove_older();
}

void Steward::count_made(const Merged& merged) {
    const StepPlace& place = step_->place;
    const fs::path output = outputs_.front() / place.name;
    ++counts_.made;
    counts_.bytes += merged.bytes;
    counts_.seconds += merged.seconds;
    counts_.last_step = place.number;
    counts_.last_made = static_cast<double>(std::time(nullptr));
    diary_.write("made", {{"step", place.name},
                          {"number", place.number},
                          {"output", output.string()},
                          {"bytes", merged.bytes},
                          {"seconds", merged.seconds},
                          {"inputs", step_->print}});
}

/// Whether nothing is missing of the step's delta.
bool Steward::take_delta(const Merged& merged) {
    const StepPlace place = step_->place;
    if (merged.delta) {
        undelivered_.erase(place.name);
        counts_.deltas += merged.delta->was_there ? 0 : 1;
        chain_.add({place.name, place.number, merged.delta->version});
        note_link({place.name, place.number, merged.delta->version}, merged.delta->delta_bytes);
    } else if (merged.delta_failure) {
        take_delta_failure(*merged.delta_failure);
        return false;
    } else if (!merged.failure && chain_.is_to_begin()) {
        log_.info(place.name + " has no delta: the deltas begin with it (--delta_against)");
        note_link(chain_.begin(place), 0);
    }
    return true;
}

void Steward::note_link(const Link& link, Bytes bytes) {
    diary_.write("delta", {{"step", link.step},
                           {"number", link.number},
                           {"directory", chain_.directory().string()},
                           {"version", version_digits(link.version)},
                           {"bytes", bytes}});
}

void Steward::take_delta_failure(const Error& failure) {
    const std::string& name = step_->place.name;
    log_.error(Error(failure).add_context("delta of step " + name));
    ++counts_.failed;
    undelivered_[name] = failure.what();
    diary_.write("delta_failed", {{"step", name},
                                  {"number", step_->place.number},
                                  {"code", static_cast<int>(failure.code())},
                                  {"error", failure.full_text()}});
    lookout_.settle(*step_, may_pass(failure.code()) ? Lookout::End::failed : Lookout::End::refused,
                    wall_seconds());
}

void Steward::take_failure(const Error& failure) {
    const ReadyStep step = *step_;
    const std::string& name = step.place.name;
    StepFiles files;
    const bool is_seen = !mpi::error_of([&] { files = files_of(step.place.path); });
    if (is_seen && files.files.size() < step.n_files) {
        leave_lost(failure);
        return;
    }
    if (forgets_unfit(failure)) {
        lookout_.settle(step, Lookout::End::again, wall_seconds());
        return;
    }
    const bool is_changed = is_seen && files.print() != step.print;
    if (is_changed || (!step.has_signs && tells_incomplete(failure.code()))) {
        log_.warning(name + " was not complete: " + failure.full_text());
        diary_.write("incomplete", {{"step", name}, {"error", failure.full_text()}});
        lookout_.settle(step, is_changed ? Lookout::End::again : Lookout::End::failed,
                        wall_seconds());
        return;
    }
    log_.error(Error(failure).add_context("step " + name));
    if (is_of_upload(failure.code())) {
        unsent_.insert(name);
    }
    ++counts_.failed;
    unmade_[name] = failure.what();
    diary_.write("failed", {{"step", name},
                            {"number", step.place.number},
                            {"code", static_cast<int>(failure.code())},
                            {"error", failure.full_text()}});
    lookout_.settle(step, may_pass(failure.code()) ? Lookout::End::failed : Lookout::End::refused,
                    wall_seconds());
}

/// Whether the merge was refused for what an earlier one left, of files that are others since or by
/// another version: that is removed.
bool Steward::forgets_unfit(const Error& failure) {
    const fs::path output = outputs_.front() / step_->place.name;
    const bool may_be =
        failure.code() == ErrorCode::mismatch || failure.code() == ErrorCode::target;
    if (!may_be ||
        io::kind_at(publish::beside(output, publish::kPartialTrace)) == io::FileKind::none) {
        return false;
    }
    log_.info("begins again with " + step_->place.name +
              ": what an earlier run left does not fit: " + failure.what());
    diary_.write("restarted", {{"step", step_->place.name}, {"error", failure.full_text()}});
    remove_unfinished(step_->place.name);
    return true;
}

void Steward::remove_unfinished(const std::string& name) {
    for (const fs::path& output : outputs_named(name)) {
        if (const auto left = mpi::error_of([&] { publish::remove_unfinished(output); })) {
            log_.warning(left->full_text());
        }
    }
}

void Steward::leave_lost(const Error& failure) {
    const ReadyStep step = *step_;
    const std::string& name = step.place.name;
    ++counts_.lost;
    const std::string text = name + " was deleted while it was read: ";
    if (request_.skips_lost) {
        log_.warning(text + failure.full_text());
    } else {
        log_.error(Error(failure.code(), text + failure.what(),
                         "let the trainer keep more steps, or give --on_lost skip"));
        unmade_[name] = "it was deleted while it was read";
    }
    diary_.write("lost", {{"step", name}, {"error", failure.full_text()}});
    remove_unfinished(name);
    lookout_.forget(name);
}

void Steward::follow(const std::string& name) {
    if (request_.then.empty()) {
        return;
    }
    const ThenOutcome outcome = run_then(request_, name, outputs_.front() / name, log_);
    if (outcome.was_stopped) {
        throw Error(ErrorCode::stopped,
                    "interrupted while the command of --then ran behind " + name);
    }
    diary_.write("then", {{"step", name}, {"fault", outcome.fault}});
    unfollowed_.erase(name);
    if (outcome.fault.empty()) {
        unended_.erase(name);
        return;
    }
    ++counts_.then_failed;
    unended_[name] = outcome.fault;
    log_.warning("the command of --then " + outcome.fault + ", behind " + name);
}

/// Commands that a watch which was killed did not come to.
void Steward::follow_earlier() {
    for (const std::string& name : diary_.earlier().unfollowed) {
        if (!unsent_.contains(name) && !chain_.awaits(name) &&
            is_own_output(outputs_.front() / name, run_)) {
            follow(name);
        }
    }
}

void Steward::remove_one(const std::string& name) {
    // Noted first: once it is gone nothing else tells that the step was made.
    diary_.write("removed", {{"step", name}, {"inputs", lookout_.print_of(name)}});
    for (const fs::path& output : outputs_named(name)) {
        if (is_own_output(output, run_)) {
            remove_output(output);
        }
    }
    ++counts_.removed;
    log_.info("removed " + (outputs_.front() / name).string() + " (--keep " +
              std::to_string(request_.keep) + ")");
}

void Steward::remove_older() {
    if (request_.keep == 0) {
        return;
    }
    const auto failure = mpi::error_of([&] {
        for (const std::string& name : outputs_beyond(request_.keep, outputs_.front(), run_)) {
            if (!chain_.needs(name) && !unsent_.contains(name)) {
                remove_one(name);
            }
        }
    });
    if (failure) {
        log_.warning("an older output stays: " + failure->full_text());
    }
}

void Steward::end(const std::string& why, ErrorCode code) {
    diary_.write("ended", {{"why", why},
                           {"code", static_cast<int>(code)},
                           {"made", counts_.made},
                           {"complete", counts_.complete},
                           {"failed", counts_.failed},
                           {"lost", counts_.lost}});
    if (request_.metrics) {
        (void)mpi::error_of([&] { write_metrics(counts_, *request_.metrics); });
    }
    log_.info(counted(static_cast<std::size_t>(counts_.made), "step") + " made, " +
              std::to_string(counts_.complete) + " complete before");
}

std::string Steward::faults() const {
    std::string text;
    if (!unmade_.empty()) {
        text = counted(unmade_.size(), "step") + " not finished: " + names_in(unmade_);
    }
    if (!undelivered_.empty()) {
        text += std::string(text.empty() ? "" : "; ") + counted(undelivered_.size(), "step") +
                " without a delta: " + names_in(undelivered_);
    }
    if (!unended_.empty()) {
        text +=
            std::string(text.empty() ? "" : "; ") + "--then failed behind " + names_in(unended_);
    }
    return text;
}

}  // namespace shardweld::app::watching
