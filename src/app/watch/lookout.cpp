#include "lookout.hpp"

#include <algorithm>
#include <iterator>

#include <sys/stat.h>

#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app::watching {

namespace {

constexpr double kNanoseconds = 1e9;
constexpr double kLeastPatience_s = 600;
constexpr double kLeastSlack_s = 1;
constexpr int kQuietIntervals = 2;

/// What the system says of a path; nothing where it is gone.
io::FileStamp stamp_at(const fs::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? io::stamp_of(status, path.c_str())
                                              : io::FileStamp();
}

}  // namespace

/// The stamps of the step's directory, of its first and last file by name, and of what was written
/// last: one of them changes early where a step is written again.
std::vector<Lookout::Mark> Lookout::marks_of(const fs::path& step, const StepFiles& files) {
    std::vector<Mark> marks{{step, stamp_at(step)}};
    if (!files.files.empty()) {
        const auto newest = std::ranges::max_element(
            files.files, {}, [](const StepFile& file) { return file.stamp.modified_ns; });
        for (const StepFile& file : {files.files.front(), files.files.back(), *newest}) {
            marks.push_back({step / file.path, file.stamp});
        }
    }
    return marks;
}

double Lookout::patience_s() const {
    constexpr double kIntervals = 20;
    return std::max(kIntervals * request_.interval, kLeastPatience_s);
}

bool Lookout::is_asked_for(const StepPlace& place) const {
    return place.number >= request_.from && place.number % request_.every == 0;
}

bool Lookout::is_over(const Known& known, double now) const {
    return known.end && (*known.end != End::failed || now - known.ended < patience_s());
}

Lookout::State Lookout::state_of(const StepPlace& place, const StepFiles& files, const Known& known,
                                 double now) {
    const double wait = kQuietIntervals * request_.interval;
    const double quiet_s = now - known.quiet_since;
    const auto slack_ns = static_cast<Index>(std::max(wait, kLeastSlack_s) * kNanoseconds);
    const fs::path above = place.path.parent_path();
    if (!trackers_.contains(above)) {
        trackers_.emplace(above, trackers_in(above));
    }
    const Verdict verdict = verdict_on(place.name, files, trackers_.at(above), slack_ns);
    if (verdict.waits_for.empty() && !verdict.is_old) {
        return {quiet_s >= wait ? "" : "its files are not quiet yet", true, verdict.has_signs};
    }
    // A run that was copied has lost its signs, or their times.
    if (!verdict.is_unfinished && quiet_s >= patience_s()) {
        return {"", false, false};
    }
    return {verdict.waits_for.empty() ? "its files were written behind the signs of its end"
                                      : "waiting for " + verdict.waits_for,
            false, false};
}

void Lookout::examine_files(const StepPlace& place, Known& known, double now, Look& look) {
    const StepFiles files = files_of(place.path);
    const std::string print = files.print();
    if (print != known.print) {
        known.print = print;
        known.quiet_since = now;
        known.end.reset();
        last_news_ = now;
    }
    const auto left = left_.find(place.name);
    if (left != left_.end() && left->second == print) {
        known.end = End::made;
    }
    if (is_over(known, now)) {
        known.marks = marks_of(place.path, files);
        return;
    }
    const State state = state_of(place, files, known, now);
    ++look.n_waiting;
    look.is_awaited = look.is_awaited || state.is_awaited;
    if (!state.is_awaited && !state.why.empty() && state.why != known.why) {
        look.news.push_back(place.name + ": " + state.why);
    }
    known.why = state.why;
    if (state.why.empty() && !look.next) {
        look.next = ReadyStep{place, print, files.files.size(), state.has_signs, known.was_made};
    }
}

void Lookout::examine(const StepPlace& place, double now, Look& look) {
    Known& known = known_[place.name];
    const auto is_same = [](const Mark& mark) { return stamp_at(mark.path) == mark.stamp; };
    if (is_over(known, now) && std::ranges::all_of(known.marks, is_same)) {
        return;
    }
    try {
        examine_files(place, known, now, look);
    } catch (const Error& error) {
        ++look.n_waiting;
        if (known.why != error.what()) {
            look.news.push_back(place.name + ": " + error.full_text());
        }
        known.why = error.what();
    }
}

void Lookout::forget_gone(const std::vector<StepPlace>& places, Look& look) {
    for (auto at = known_.begin(); at != known_.end();) {
        const bool is_there = std::ranges::count(places, at->first, &StepPlace::name) > 0;
        if (!is_there && !at->second.end) {
            look.news.push_back(at->first + " was deleted before it was complete");
        }
        at = is_there ? std::next(at) : known_.erase(at);
    }
}

Look Lookout::look(double now) {
    last_news_ = last_news_.value_or(now);
    trackers_.clear();
    Look look;
    auto [places, doubles] = steps_of(run_, others_);
    for (const StepPlace& place : doubles) {
        if (is_asked_for(place) && doubles_.insert(place.path).second) {
            look.doubles.push_back(place.path);
        }
    }
    std::erase_if(places, [&](const StepPlace& place) { return !is_asked_for(place); });
    forget_gone(places, look);
    look.n_steps = places.size();
    directories_.clear();
    for (const StepPlace& place : places) {
        directories_.insert(place.path.parent_path());
        examine(place, now, look);
    }
    look.idle_s = now - *last_news_;
    return look;
}

std::string Lookout::print_of(const std::string& name) const {
    const auto known = known_.find(name);
    return known == known_.end() ? "" : known->second.print;
}

void Lookout::settle(const ReadyStep& step, End end, double now) {
    Known& known = known_[step.place.name];
    last_news_ = now;
    known.was_made = known.was_made || end == End::made;
    StepFiles files;
    (void)mpi::error_of([&] { files = files_of(step.place.path); });
    if (end == End::again || files.print() != step.print) {
        known.print.clear();
        known.end.reset();
        return;
    }
    known.end = end;
    known.ended = now;
    known.marks = marks_of(step.place.path, files);
}

}  // namespace shardweld::app::watching
