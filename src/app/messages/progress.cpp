#include "progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

namespace {

constexpr double kLineSeconds = 10;
constexpr int kLinePercent = 10;
constexpr double kRedrawSeconds = 0.1;
constexpr double kObjectSeconds = 1;
constexpr std::size_t kLeastBar = 10;
constexpr std::size_t kMostBar = 40;
constexpr std::size_t kTimeWidth = 11;  // "59m59s left"
constexpr std::size_t kBytesWidth = 7;  // "12.3 MB"

std::string time_left_text(double seconds) {
    const auto whole = std::llround(std::max(0.0, seconds));
    return whole >= 3600 ? formatted("%lldh%02lldm left", whole / 3600, whole / 60 % 60)
           : whole >= 60 ? formatted("%lldm%02llds left", whole / 60, whole % 60)
                         : formatted("%llds left", whole);
}

bool is_bytes(const Workload& work) {
    return std::strcmp(work.noun, "B") == 0;
}

std::string amount_text(const Workload& work, Index amount) {
    return is_bytes(work) ? human_bytes(static_cast<Bytes>(amount)) : std::to_string(amount);
}

double seconds_left(const ProgressState& state) {
    return state.rate() > 0 ? static_cast<double>(state.work.total - state.done) / state.rate() : 0;
}

struct Figure {
    std::string text;       ///< "" while it is not known
    std::size_t width = 0;  ///< of the usual longest
};

/// What is known beside the share, the most telling first.
std::vector<Figure> progress_figures(const ProgressState& state) {
    if (state.work.total == 0) {
        return {};
    }
    const bool goes_on = state.done > state.earlier && state.done < state.work.total;
    const std::string total = amount_text(state.work, state.work.total);
    const std::string of_total =
        " of " + total + (is_bytes(state.work) ? "" : " " + std::string(state.work.noun));
    std::vector<Figure> figures{
        {goes_on ? time_left_text(seconds_left(state)) : "", kTimeWidth},
        {amount_text(state.work, state.done) + of_total,
         (is_bytes(state.work) ? kBytesWidth : total.size()) + of_total.size()}};
    if (is_bytes(state.work)) {
        figures.push_back(
            {goes_on ? human_bytes(static_cast<Bytes>(state.rate())) + "/s" : "", kBytesWidth + 2});
    }
    return figures;
}

std::string bar_of(std::size_t width, int percent, bool is_coloured) {
    const std::size_t full = width * as_size(percent) / 100;
    return std::string(is_coloured ? "\x1b[32m" : "") + "[" + std::string(full, '#') +
           std::string(width - full, '.') + "]" + (is_coloured ? "\x1b[0m" : "");
}

// Between two lines in a rank's own log.
constexpr double kNoteSeconds = 10;

/// {"event": "progress", "phase": ..., ...}.
std::string progress_json(const ProgressState& state) {
    nlohmann::ordered_json json = {{"event", "progress"}, {"phase", state.phase}};
    if (state.work.total > 0) {
        json["done"] = state.done;
        json["total"] = state.work.total;
        json["unit"] = is_bytes(state.work) ? "bytes" : state.work.noun;
        json["per_s"] = state.rate();
        json["left_s"] = seconds_left(state);
    }
    json["elapsed_s"] = state.elapsed;
    return json.dump();
}

}  // namespace

Clock steady_clock() {
    return wall_seconds;
}

int ProgressState::percent() const {
    return work.total == 0 ? 0
                           : static_cast<int>(100.0 * static_cast<double>(done) /
                                              static_cast<double>(work.total));
}

double ProgressState::rate() const {
    return static_cast<double>(done - earlier) / std::max(elapsed, 1e-9);
}

std::string progress_line(const ProgressState& state) {
    if (state.work.total == 0) {
        return state.phase;
    }
    std::string text = state.phase + ": " + std::to_string(state.percent()) + " %";
    for (const Figure& figure : progress_figures(state)) {
        text += (figure.text.empty() ? "" : ", ") + figure.text;
    }
    return text;
}

std::string progress_bar(const ProgressState& state, std::size_t width, bool is_coloured) {
    if (state.work.total == 0) {
        return state.phase.substr(0, width) + (state.phase.size() + 3 <= width ? "..." : "");
    }
    const std::string share = formatted("%3d %%", state.percent());
    // "PHASE [####....]  42 %  FIGURES": a bar before the figures, and these as far as they fit.
    // They take the same width all the time, so that the bar does, too.
    const std::size_t least = state.phase.size() + kLeastBar + share.size() + 4;
    if (least > width) {
        return (state.phase + " " + share.data()).substr(0, width);
    }
    std::string figures;
    for (const Figure& figure : progress_figures(state)) {
        const std::size_t own = 2 + std::max(figure.width, figure.text.size());
        if (least + figures.size() + own > width) {
            break;
        }
        figures += std::string(own - figure.text.size(), ' ') + figure.text;
    }
    const std::size_t bar = std::min(kMostBar, kLeastBar + width - least - figures.size());
    return state.phase + " " + bar_of(bar, state.percent(), is_coloured) + " " + share.data() +
           figures;
}

ProgressStyle style_for(ProgressStyle asked, const Log& log, bool is_quiet) {
    if (!log.is_speaker() || (asked == ProgressStyle::automatic && is_quiet)) {
        return ProgressStyle::none;
    }
    if (log.listener() != nullptr) {
        return ProgressStyle::told;
    }
    if (asked == ProgressStyle::automatic) {
        return log.terminal() != nullptr ? ProgressStyle::bar : ProgressStyle::lines;
    }
    return asked;
}

std::function<std::string()> ticking(Progress& progress, std::function<std::string()> why_stop) {
    return [&progress, why_stop = std::move(why_stop)] {
        progress.tick();
        return why_stop ? why_stop() : std::string();
    };
}

std::function<void(Index, Index, Index)> shown(Progress& progress, std::string phase,
                                               const char* noun) {
    return [&progress, phase = std::move(phase), noun, is_begun = false](Index done, Index own,
                                                                         Index total) mutable {
        if (!std::exchange(is_begun, true)) {
            progress.begin(phase, {total, own, noun}, done);
        }
        progress.update(done);
    };
}

Progress::Progress(Log& log, ProgressStyle style, Clock clock)
    : log_(&log), style_(style), clock_(std::move(clock)) {}

void Progress::begin(const std::string& phase, const Workload& work, Index done) {
    end();
    state_ = {phase, work};
    state_.done = state_.earlier = of_total(done);
    own_ = done;
    start_ = clock_();
    shown_ = start_;
    shown_percent_ = state_.percent();
    if (style_ != ProgressStyle::lines && style_ != ProgressStyle::none) {
        show();
    }
}

void Progress::update(Index done) {
    own_ = done;
    if (style_ == ProgressStyle::none || state_.phase.empty()) {
        return;
    }
    const double now = clock_();
    const double every = style_ == ProgressStyle::lines  ? kLineSeconds
                         : style_ == ProgressStyle::json ? kObjectSeconds
                                                         : kRedrawSeconds;
    if (now - shown_ < every) {
        return;
    }
    state_.done = std::max(state_.done, of_total(done));
    if (style_ == ProgressStyle::lines && state_.work.total > 0 &&
        state_.percent() - shown_percent_ < kLinePercent) {
        return;
    }
    shown_ = now;
    state_.elapsed = now - start_;
    show();
}

Index Progress::of_total(Index own) const {
    const Workload& work = state_.work;
    return work.share > 0 ? static_cast<Index>(static_cast<double>(std::min(own, work.share)) /
                                               static_cast<double>(work.share) *
                                               static_cast<double>(work.total))
                          : 0;
}

void Progress::end() {
    if (state_.phase.empty()) {
        return;
    }
    state_.done = state_.work.total;
    state_.elapsed = clock_() - start_;
    if (style_ == ProgressStyle::json || style_ == ProgressStyle::told) {
        show();
    }
    log_->draw("");
    state_.phase.clear();
}

void Progress::show() {
    shown_percent_ = state_.percent();
    if (style_ == ProgressStyle::json) {
        log_->write_object(progress_json(state_));
    } else if (style_ == ProgressStyle::told) {
        const bool counts_bytes = is_bytes(state_.work);
        log_->listener()->progress({state_.phase, state_.done, state_.work.total,
                                    counts_bytes ? "bytes" : state_.work.noun, state_.elapsed});
    } else if (style_ == ProgressStyle::lines) {
        log_->info(progress_line(state_));
    } else {
        const Terminal* const terminal = log_->terminal();
        const std::size_t width = terminal != nullptr ? terminal->width() : 80;
        log_->draw(progress_bar(state_, width - 1, log_->has_colours()));
    }
}

std::function<void(Bytes)> moving_shown(std::string phase, const plan::Plan& plan, int rank,
                                        Progress& progress, Log& log) {
    const auto at = as_size(rank);
    const Bytes own = plan.cuts[at + 1] - plan.cuts[at];
    const Bytes total = plan.placement.tensor_bytes;
    return [show = shown(progress, std::move(phase)), own, total, &log,
            noted = wall_seconds()](Bytes done) mutable {
        show(static_cast<Index>(done), static_cast<Index>(own), static_cast<Index>(total));
        if (wall_seconds() - noted >= kNoteSeconds) {
            noted = wall_seconds();
            log.write_own("this rank's part: " + human_bytes(done) + " of " + human_bytes(own));
        }
    };
}

}  // namespace shardweld::app
