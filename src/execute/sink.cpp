#include "sink.hpp"

#include <algorithm>
#include <cstdint>

#include <sys/resource.h>

#include "core/process/system.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/written.hpp"
#include "plan/plan.hpp"

#include "round.hpp"

namespace shardweld::execute {

namespace {

constexpr Bytes kSmallWrite = Bytes{64} << 10U;
// Between two looks at a file's size, which may be a message to a server.
constexpr Bytes kLookBytes = Bytes{16} << 20U;

/// Others need descriptors too.
bool may_be_held(int fd) {
    struct rlimit limit {};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) < limit.rlim_cur / 4;
}

}  // namespace

const Sink::OpenOutput& Sink::file(std::uint32_t at) {
    if (!open_ || open_->at != at) {
        finish();
        const std::string& name = plan_.placement.files[at].name;
        if (source_.on_open) {
            source_.on_open(directory_.path() / name);
        }
        directory_.require_same();
        if (!options_.made.empty()) {
            io::require_same_file(directory_, name, options_.made[at]);
        }
        open_ = {at, io::OutputFile::open_existing(directory_, name), std::nullopt};
        if (plan_.n_ranks() > 1) {
            open_->file.take_turns();
        }
        if (options_.direct) {
            open_->direct = io::OutputFile::open_direct(directory_, name);
        }
        require_same_file(*open_);
    }
    return *open_;
}

/// A file that was cut gets its size back from a write at its end, and nothing else tells.
void Sink::require_same_file(const OpenOutput& open) {
    since_look_ = 0;
    if (!options_.made.empty()) {
        io::require_same_file(open.file.fd(), open.file.path(), options_.made[open.at]);
    }
}

/// As long as a file is open, no other file gets its inode number.
void Sink::keep_inode(const OpenOutput& open) {
    const auto& file = plan_.placement.files[open.at];
    io::require_same_file(directory_, file.name, options_.made[open.at]);
    io::InputFile held = io::InputFile::open(directory_, file.name);
    io::require_same_file(held.fd(), held.path(), options_.made[open.at]);
    if (may_be_held(held.fd())) {
        held_.push_back(std::move(held));
    }
}

void Sink::write_at(const OpenOutput& open, Bytes offset, ByteView bytes) {
    bytes_written_ += bytes.size();
    since_look_ += bytes.size();
    const bool is_end = offset + bytes.size() >= plan_.placement.files[open.at].size;
    if (is_end || since_look_ > kLookBytes) {
        require_same_file(open);
    }
    if (source_.throttle) {
        source_.throttle->wait_for(bytes.size());
    }
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    const Bytes head = std::min<Bytes>(
        (io::kDirectBlock - offset % io::kDirectBlock) % io::kDirectBlock, bytes.size());
    const Bytes whole = (bytes.size() - head) / io::kDirectBlock * io::kDirectBlock;
    if (!open.direct || whole == 0 || (address + head) % io::kDirectBlock != 0) {
        put_cached(open.file, offset, bytes);
        return;
    }
    // Blocks that are shared with the neighbours in the file go through the cache.
    put_cached(open.file, offset, bytes.first(head));
    open.direct->write_at(offset + head, bytes.subspan(head, whole));
    put_cached(open.file, offset + head + whole, bytes.subspan(head + whole));
}

void Sink::put_cached(const io::OutputFile& file, Bytes offset, ByteView bytes) {
    if (bytes.empty()) {
        return;
    }
    // What is synced goes to the disk anyway: the sooner the better.
    const bool is_behind = options_.sync || pace_.is_behind();
    const double wall = wall_seconds();
    const double cpu = thread_cpu_seconds();
    // Pages that are to be used again soon are best large; where they stay, the kernel finds small
    // ones more quickly: docs/measurements/performance.md.
    const Bytes most = is_behind ? bytes.size() : kSmallWrite;
    file.write_at(offset, bytes, most);
    if (is_behind) {
        behind_.add(file, offset, bytes.size());
    }
    pace_.next(bytes.size(), wall_seconds() - wall, thread_cpu_seconds() - cpu);
}

void Sink::write(plan::OutputRange range, ByteView bytes) {
    // Consecutive slices that follow each other in their file too are one write.
    const auto slices = plan::slices_of(plan_, range);
    for (std::size_t first = 0; first < slices.size();) {
        const outputs::Slot& slot = plan_.placement.slots[slices[first].tensor];
        std::size_t last = first + 1;
        while (last < slices.size() && follows(slices[last - 1], slices[last])) {
            ++last;
        }
        const Bytes output_end = last < slices.size() ? slices[last].output_begin : range.end;
        const Bytes offset = file_offset_of(plan_, slices[first]);
        const auto part = bytes.subspan(slices[first].output_begin - range.begin,
                                        output_end - slices[first].output_begin);
        write_at(file(slot.file), offset, part);
        first = last;
    }
}

bool Sink::follows(const plan::Slice& before, const plan::Slice& slice) const {
    const outputs::Slot& end = plan_.placement.slots[before.tensor];
    const outputs::Slot& begin = plan_.placement.slots[slice.tensor];
    const plan::Slice behind{before.tensor, before.end, before.end, 0};
    return begin.file == end.file && file_offset_of(plan_, slice) == file_offset_of(plan_, behind);
}

void Sink::sync() {
    if (open_ && options_.sync) {
        behind_.finish(open_->file);
        open_->file.sync();
    }
}

void Sink::finish() {
    if (!open_) {
        return;
    }
    sync();
    behind_ = {};
    require_same_file(*open_);
    if (!options_.made.empty()) {
        keep_inode(*open_);
    }
    open_->file.close();
    if (open_->direct) {
        open_->direct->close();
    }
    open_.reset();
}

}  // namespace shardweld::execute
