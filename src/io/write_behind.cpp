#include "write_behind.hpp"

#include <algorithm>

#include "output_file.hpp"

namespace shardweld::io {

namespace {

constexpr Bytes kMiB = Bytes{1} << 20U;
// What one judgement is based on, and after how much a judgement may have become wrong.
constexpr Bytes kFirstTrial = 32 * kMiB;
constexpr Bytes kTrial = 64 * kMiB;
constexpr Bytes kLongTrial = 256 * kMiB;
constexpr Bytes kTrustedFor = 8192 * kMiB;
// Bytes per second of one rank: a page cache below is in trouble, and disks may be quicker.
constexpr double kSlow = 0.7e9;

// Large enough for the disk; the speed measured was the same from 4 to 256 MiB on the way. The
// first trial gives nothing back: samples of it would be read from a disk that has all the rest
// before it.
constexpr Bytes kExtent = 4 * kMiB;
constexpr Bytes kMostOnTheWay = 2 * kFirstTrial;

}  // namespace

void Pace::next(Bytes bytes, double wall_s, double cpu_s) {
    bytes_ += bytes;
    wall_s_ += wall_s;
    cpu_s_ += cpu_s;
    since_change_ += bytes;
    const Bytes trial = cache_rate_ == 0 ? kFirstTrial : is_behind_ ? kLongTrial : kTrial;
    // What takes as long as a whole slow trial is slow.
    const bool is_slow = is_cache_judged() && cpu_s_ > static_cast<double>(trial) / kSlow;
    if (is_slow || bytes_ >= trial) {
        choose_way();
        bytes_ = 0;
        wall_s_ = 0;
        cpu_s_ = 0;
    }
}

void Pace::choose_way() {
    const double rate = static_cast<double>(bytes_) / std::max(wall_s_, 1e-9);
    const bool is_old = since_change_ > kTrustedFor;
    bool is_behind = false;
    if (is_cache_judged()) {
        // Other processes and locks take wall time; new pages take the processor's.
        const bool is_slow = static_cast<double>(bytes_) < kSlow * cpu_s_;
        cache_rate_ = rate;
        is_behind = is_slow && (behind_rate_ == 0 || behind_rate_ > rate || is_old);
    } else {
        behind_rate_ = rate;
        is_behind = !is_old && rate >= cache_rate_;
    }
    if (is_behind != is_behind_) {
        is_behind_ = is_behind;
        since_change_ = 0;
    }
}

void WriteBehind::add(const OutputFile& file, Bytes offset, Bytes size) {
    if (open_.begin < open_.end && open_.end != offset) {
        start(file);
    }
    if (open_.begin == open_.end) {
        open_ = {offset, offset};
    }
    open_.end = offset + size;
    if (open_.end - open_.begin >= kExtent) {
        start(file);
    }
    while (bytes_on_the_way_ > kMostOnTheWay) {
        finish_oldest(file);
    }
}

void WriteBehind::finish(const OutputFile& file) {
    if (open_.begin < open_.end) {
        start(file);
    }
    while (!on_the_way_.empty()) {
        finish_oldest(file);
    }
}

void WriteBehind::start(const OutputFile& file) {
    file.start_writeback(open_.begin, open_.end - open_.begin);
    on_the_way_.push_back(open_);
    bytes_on_the_way_ += open_.end - open_.begin;
    open_ = {};
}

void WriteBehind::finish_oldest(const OutputFile& file) {
    const Extent oldest = on_the_way_.front();
    on_the_way_.pop_front();
    bytes_on_the_way_ -= oldest.end - oldest.begin;
    file.finish_writeback(oldest.begin, oldest.end - oldest.begin);
}

}  // namespace shardweld::io
