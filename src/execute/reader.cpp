#include "reader.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "plan/schedule/reading.hpp"

#include "record_sums.hpp"

namespace shardweld::execute {

namespace {

using layout::Copy;

using plan::kLongRun;
using plan::kSmallGap;

// Parts that are gathered before they are read, whatever the memory.
constexpr Bytes kFewParts = 16;
// What is summed while it is in the processor's cache.
constexpr Bytes kSummedAtOnce = Bytes{256} << 10U;

/// Position of the loop that is contiguous on both sides, or the number of loops.
std::size_t contiguous_loop(const Copy& copy) {
    std::size_t k = 0;
    while (k < copy.loops.size() &&
           (copy.loops[k].src_stride != 1 || copy.loops[k].dst_stride != 1)) {
        ++k;
    }
    return k;
}

/// The copy with loop k fixed at its j-th turn.
Copy turn_of(const Copy& copy, std::size_t k, Index j) {
    Copy turn = copy;
    turn.src_offset += j * copy.loops[k].src_stride;
    turn.dst_offset += j * copy.loops[k].dst_stride;
    turn.loops.erase_at(k);
    return turn;
}

/// The outermost loop (by source stride) whose turns lie further apart than a small gap, or the
/// number of loops.
std::size_t sparse_loop(const Move& move) {
    const Copy& copy = move.copy;
    std::size_t widest = copy.loops.size();
    for (const std::size_t k : indices(copy.loops)) {
        if (widest == copy.loops.size() ||
            copy.loops[k].src_stride > copy.loops[widest].src_stride) {
            widest = k;
        }
    }
    if (widest == copy.loops.size()) {
        return widest;
    }
    const auto inner = static_cast<Bytes>(layout::src_span(turn_of(copy, widest, 0)).extent);
    const auto stride = static_cast<Bytes>(copy.loops[widest].src_stride);
    return stride > inner && (stride - inner) * move.element_bytes > kSmallGap ? widest
                                                                               : copy.loops.size();
}

}  // namespace

void Move::carry_out(const Copy& elements, ByteView src) const {
    if (n_different != nullptr) {
        *n_different += count_unlike(elements, rounding, src, dst);
    } else {
        layout::run(elements, element_bytes, src, dst);
    }
}

const io::InputFile& OpenFiles::get(std::uint32_t file) {
    auto* const found = find_value(by_file_, file);
    if (found != nullptr) {
        recent_.splice(recent_.begin(), recent_, *found);
        recent_.front().is_read = true;
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
    require_expected(opened, file);
    if (!cached_.contains(file)) {
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
    if (cached_.at(file) < 1) {
        opened.will_need(offset, size);
    }
}

bool OpenFiles::is_cold(std::uint32_t file) const {
    constexpr double kLittle = 0.1;
    return !source_.stays_cached && cached_.at(file) < kLittle;
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

void OpenFiles::require_expected(const io::InputFile& opened, std::uint32_t file) const {
    opened.require(expected(file));
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
    require_expected(oldest.opened, oldest.file);
    close_oldest();
}

void OpenFiles::finish() {
    while (!recent_.empty()) {
        check_and_close_oldest();
    }
}

void OpenFiles::require_unchanged() {
    for (OpenInput& entry : recent_) {
        if (!std::exchange(entry.is_read, false)) {
            break;  // those that were read are the most recent
        }
        require_expected(entry.opened, entry.file);
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

Reader::Reader(const SourceFiles& source, Bytes scratch_bytes)
    : files_(source),
      throttle_(source.throttle),
      sums_(source.sums),
      scratch_bytes_(scratch_bytes) {}

Index Reader::gather(std::span<const plan::Operand> operands, std::span<const layout::Range> ranges,
                     std::uint32_t element_bytes, ByteSpan out) {
    std::vector<Move> moves;
    Index n_found = 0;
    for (const plan::Operand& operand : operands) {
        Index at = 0;
        for (const layout::Range& range : ranges) {
            for (Copy& part : layout::part_in(operand.copy, range)) {
                part.dst_offset += at;
                n_found += part.volume();
                moves.push_back({operand.file, operand.base, element_bytes, part, out, nullptr});
            }
            at += range.extent;
        }
    }
    if (static_cast<Bytes>(n_found) * element_bytes == out.size()) {
        read(std::move(moves));
    }
    return n_found;
}

void Reader::fetch(std::uint32_t file, Bytes offset, ByteSpan out) {
    if (throttle_) {
        throttle_->wait_for(out.size());
    }
    const io::InputFile& opened = files_.get(file);
    const Bytes step = sums_ ? kSummedAtOnce : std::max<Bytes>(out.size(), 1);
    for (Bytes at = 0; at < out.size(); at += step) {
        const auto part = out.subspan(at, std::min<Bytes>(step, out.size() - at));
        opened.read_at(offset + at, part);
        if (sums_) {
            sums_->add(file, offset + at, part);
        }
    }
    bytes_read_ += out.size();
}

/// Reads a move whose runs are long without a window; false when its runs are short.
bool Reader::read_runs(const Move& move) {
    const std::size_t k = contiguous_loop(move.copy);
    if (k == move.copy.loops.size() || move.n_different != nullptr) {
        return false;
    }
    const Bytes run = static_cast<Bytes>(move.copy.loops[k].extent) * move.element_bytes;
    if (run < kLongRun) {
        return false;
    }
    Copy starts = move.copy;
    starts.loops.erase_at(k);
    const Index n_runs = starts.volume();
    for (Index i = 0; i < n_runs; ++i) {
        Index rest = i;
        Index src = starts.src_offset;
        Index dst = starts.dst_offset;
        for (std::size_t loop = starts.loops.size(); loop-- > 0;) {
            const Index j = rest % starts.loops[loop].extent;
            rest /= starts.loops[loop].extent;
            src += j * starts.loops[loop].src_stride;
            dst += j * starts.loops[loop].dst_stride;
        }
        const Bytes begin = move.at(src);
        fetch(move.file, begin,
              move.dst.subspan(static_cast<std::size_t>(dst) * move.element_bytes, run));
        files_.done_with(move.file, begin, run);
    }
    return true;
}

/// Cuts a move into parts that span at most the scratch buffer and hold no large gaps.
void Reader::split(const Move& move, std::vector<Spanned>& out) {
    const std::size_t sparse = sparse_loop(move);
    if (sparse < move.copy.loops.size()) {
        const Index n_turns = move.copy.loops[sparse].extent;
        for (Index j = 0; j < n_turns; ++j) {
            Move turn = move;
            turn.copy = turn_of(move.copy, sparse, j);
            split(turn, out);
        }
        return;
    }
    const layout::Range span = layout::src_span(move.copy);
    // Half the scratch, so that the same stretch of two moves (gate and up of one piece) fits one
    // window.
    const auto window = static_cast<Index>(scratch_bytes_ / 2 / move.element_bytes);
    if (span.extent <= window) {
        add_part({move, move.at(span.lo), move.at(span.end())}, out);
        return;
    }
    for (Index at = span.lo; at < span.end(); at += window) {
        for (const Copy& part : layout::restrict_src(move.copy, at, at + window)) {
            Move cut = move;
            cut.copy = part;
            split(cut, out);
        }
    }
}

/// A transpose can fall into as many parts as it has elements: the list of them is bounded too.
void Reader::add_part(Spanned part, std::vector<Spanned>& parts) {
    const Bytes most = std::max<Bytes>(scratch_bytes_ / 8 / sizeof(Spanned), kFewParts);
    if (parts.size() >= most) {
        read_parts(parts);
    }
    parts.push_back(std::move(part));
}

/// One read for moves that lie close together.
void Reader::read_window(std::span<const Spanned> window) {
    const Bytes begin = window.front().begin;
    Bytes end = begin;
    for (const Spanned& part : window) {
        end = std::max(end, part.end);
    }
    scratch_.resize(scratch_bytes_);
    const ByteSpan bytes = std::span(scratch_).first(end - begin);
    fetch(window.front().move.file, begin, bytes);
    for (const Spanned& part : window) {
        // The window holds the bytes from `begin` on: addresses are counted from the part's own
        // first byte.
        Copy copy = part.move.copy;
        copy.src_offset -= layout::src_span(copy).lo;
        part.move.carry_out(copy, bytes.subspan(part.begin - begin, part.end - part.begin));
    }
}

void Reader::read(std::vector<Move> moves) {
    std::vector<Spanned> parts;
    std::ranges::sort(moves, {}, [](const Move& move) {
        return std::pair(move.file, move.at(move.copy.src_offset));
    });
    for (const Move& move : moves) {
        if (!read_runs(move)) {
            split(move, parts);
        }
    }
    read_parts(parts);
}

/// Reads the parts, those that lie close together at once, and forgets them.
void Reader::read_parts(std::vector<Spanned>& parts) {
    std::ranges::sort(parts, {},
                      [](const Spanned& part) { return std::pair(part.move.file, part.begin); });
    std::size_t first = 0;
    while (first < parts.size()) {
        Bytes end = parts[first].end;
        std::size_t last = first + 1;
        while (last < parts.size() && parts[last].move.file == parts[first].move.file &&
               parts[last].begin <= end + kSmallGap &&
               std::max(end, parts[last].end) - parts[first].begin <= scratch_bytes_) {
            end = std::max(end, parts[last].end);
            ++last;
        }
        read_window(std::span(parts).subspan(first, last - first));
        first = last;
    }
    parts.clear();
}

}  // namespace shardweld::execute
