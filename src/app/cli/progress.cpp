#include "progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "shardweld/core/text.hpp"
#include "shardweld/core/usage.hpp"

namespace shardweld::app {

namespace {

constexpr double kLineSeconds = 10;
constexpr double kRedrawSeconds = 0.2;

std::string time_text(double seconds) {
    const auto whole = std::llround(std::max(0.0, seconds));
    std::array<char, 64> text{};
    if (whole >= 3600) {
        (void)std::snprintf(text.data(), text.size(), "%lldh%02lldm", whole / 3600,
                            whole / 60 % 60);
    } else if (whole >= 60) {
        (void)std::snprintf(text.data(), text.size(), "%lldm%02llds", whole / 60, whole % 60);
    } else {
        (void)std::snprintf(text.data(), text.size(), "%llds", whole);
    }
    return text.data();
}

std::string speed_text(double bytes_per_s) {
    std::array<char, 64> text{};
    (void)std::snprintf(text.data(), text.size(), "%.2f GB/s", bytes_per_s / 1e9);
    return text.data();
}

}  // namespace

Clock steady_clock() {
    return wall_seconds;
}

Progress::Progress(std::ostream& out, ProgressStyle style, Workload work, Clock clock)
    : out_(&out),
      style_(style),
      work_(std::move(work)),
      clock_(std::move(clock)),
      start_(clock_()),
      shown_(start_) {}

void Progress::update(Bytes done) {
    if (style_ == ProgressStyle::silent || work_.share == 0) {
        return;
    }
    const double now = clock_();
    const double every = style_ == ProgressStyle::lines ? kLineSeconds : kRedrawSeconds;
    if (now - shown_ < every) {
        return;
    }
    const double part =
        static_cast<double>(std::min(done, work_.share)) / static_cast<double>(work_.share);
    show(static_cast<Bytes>(part * static_cast<double>(work_.total)), now);
}

void Progress::finish() {
    if (style_ == ProgressStyle::silent) {
        return;
    }
    show(work_.total, clock_());
    if (style_ == ProgressStyle::redrawn) {
        *out_ << std::endl;
    }
}

/// ", 12 of 27 tensors": those that end within the bytes done.
std::string Progress::tensors_text(Bytes done) const {
    if (work_.begins.size() < 2) {
        return "";
    }
    const auto after = std::upper_bound(work_.begins.begin(), work_.begins.end(), done);
    const auto n_begun = after - work_.begins.begin();
    return ", " + std::to_string(std::max<std::ptrdiff_t>(n_begun - 1, 0)) + " of " +
           std::to_string(work_.begins.size() - 1) + " tensors";
}

void Progress::show(Bytes done, double now) {
    shown_ = now;
    const double elapsed = std::max(now - start_, 1e-9);
    const double speed = static_cast<double>(done) / elapsed;
    const Bytes percent = work_.total == 0 ? 100
                                           : static_cast<Bytes>(100.0 * static_cast<double>(done) /
                                                                static_cast<double>(work_.total));
    std::string line = "shardweld: " + human_bytes(done) + " of " + human_bytes(work_.total) +
                       tensors_text(done) + ", " + std::to_string(percent) + " %, " +
                       speed_text(speed);
    if (done < work_.total && speed > 0) {
        line += ", " + time_text(static_cast<double>(work_.total - done) / speed) + " left";
    } else if (done >= work_.total) {
        line += ", " + time_text(elapsed) + " in all";
    }
    if (style_ == ProgressStyle::lines) {
        *out_ << line + "\n" << std::flush;
        return;
    }
    // A shorter line must cover the longer one it is drawn over.
    const std::size_t width = line.size();
    line.resize(std::max(width, drawn_width_), ' ');
    drawn_width_ = width;
    *out_ << "\r" + line << std::flush;
}

}  // namespace shardweld::app
