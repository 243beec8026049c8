#include "open_files.hpp"

#include "shardweld/error.hpp"

namespace shardweld::execute {

const io::InputFile& OpenFiles::get(std::uint32_t file) {
    const auto found = by_file_.find(file);
    if (found != by_file_.end()) {
        recent_.splice(recent_.begin(), recent_, found->second);
        return recent_.front().opened;
    }
    if (recent_.size() >= source_.max_open) {
        check_and_close_oldest();
    }
    const catalogue::File& wanted = (*source_.files)[file];
    const fs::path path = source_.directory / wanted.path;
    if (source_.on_open) {
        source_.on_open(path);
    }
    io::InputFile opened = io::InputFile::open(path);
    first_stamps_.try_emplace(file, opened.stamp());
    opened.require(expected(file));
    if (!cached_[file]) {
        cached_[file] = opened.cached_share();
    }
    recent_.push_front({file, std::move(opened)});
    by_file_[file] = recent_.begin();
    return recent_.front().opened;
}

void OpenFiles::announce(std::uint32_t file, Bytes offset, Bytes size) {
    if (by_file_.count(file) == 0 && recent_.size() >= source_.max_open) {
        return;
    }
    const io::InputFile& opened = get(file);
    if (*cached_[file] < 1) {
        opened.will_need(offset, size);
    }
}

bool OpenFiles::is_cold(std::uint32_t file) const {
    constexpr double kLittle = 0.1;
    return cached_[file].value_or(1) < kLittle;
}

void OpenFiles::done_with(std::uint32_t file, Bytes offset, Bytes size) {
    if (!is_cold(file)) {
        return;
    }
    // One range later: pages reach beyond a range's end, and the next one is mostly read next.
    OpenInput& entry = recent_.front();
    if (entry.done_size > 0) {
        entry.opened.forget(entry.done_begin, entry.done_size);
    }
    entry.done_begin = offset;
    entry.done_size = size;
}

/// What the file was before anything of it was read.
io::FileStamp OpenFiles::expected(std::uint32_t file) const {
    io::FileStamp stamp = source_.stamps != nullptr ? (*source_.stamps)[file] : io::FileStamp();
    if (stamp.modified_ns < 0) {
        stamp = first_stamps_.at(file);
    }
    stamp.size = (*source_.files)[file].size;
    return stamp;
}

void OpenFiles::check_and_close_oldest() {
    const OpenInput& oldest = recent_.back();
    oldest.opened.require(expected(oldest.file));
    close_oldest();
}

void OpenFiles::finish() {
    while (!recent_.empty()) {
        check_and_close_oldest();
    }
}

void OpenFiles::close_oldest() {
    const OpenInput& oldest = recent_.back();
    if (is_cold(oldest.file)) {
        oldest.opened.forget(0, oldest.opened.size());
    }
    by_file_.erase(oldest.file);
    recent_.pop_back();
}

OpenFiles::~OpenFiles() {
    while (!recent_.empty()) {
        close_oldest();
    }
}

}  // namespace shardweld::execute
