#include "writer.hpp"

#include <algorithm>

#include "shardweld/core/usage.hpp"
#include "shardweld/numeric/convert.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::execute {

namespace {

// What is lost at most when a node dies: a sync for so many bytes costs little.
constexpr Bytes kFlushBytes = Bytes{256} << 20U;
constexpr double kFlushSeconds = 5;

}  // namespace

Writer::Writer(const plan::Plan& plan, const SourceFiles& source, const io::Directory& directory,
               const RunOptions& options, int rank)
    : plan_(plan),
      options_(options),
      has_digests_(options.digests || !options.resumption.journal.empty()),
      sink_(plan, directory,
            {options.sync, options.direct, source.throttle, source.on_open, options.made}),
      digests_(plan, options.digests),
      factors_(plan, options.factors),
      sums_(plan),
      converted_(plan.limits.converted),
      record_sums_(source.sums),
      flushed_at_(wall_seconds()) {
    const Resumption& resumption = options.resumption;
    if (!resumption.journal.empty()) {
        journal_.emplace(resumption.journal, resumption.session, rank, options.sync);
    }
}

bool Writer::is_wanted() const {
    return options_.write || has_digests_ || options_.on_slice;
}

void Writer::put(const Round& round, plan::LineRange range) {
    try {
        sums_.add(round);
        if (round.term + 1 < plan_.n_terms) {
            return;
        }
        make(round, range);
    } catch (...) {
        // Once a write or a sync has failed, the next sync may succeed without the bytes being
        // there.
        stop_journal();
        throw;
    }
    if (!put_.empty() && put_.back().end == range.begin) {
        put_.back().end = range.end;
    } else {
        put_.push_back(range);
    }
}

void Writer::make(const Round& round, plan::LineRange range) {
    const bool is_plain = std::none_of(
        round.slices.begin(), round.slices.end(),
        [&](const Assembled& one) { return plan_.targets[one.slice.target].is_converted(); });
    // Slices lie behind one another in both buffers, so without a numeric step the assembled bytes
    // are the output.
    const plan::Slice& first = round.slices.front().slice;
    const std::span<std::byte> out =
        is_plain ? std::span(round.slices.front().stored.data(), range.end - range.begin)
                 : converted_.get(range.end - range.begin, file_offset_of(plan_, first));
    for (std::size_t i = 0; i < round.slices.size(); ++i) {
        const Assembled& one = round.slices[i];
        const Bytes size = static_cast<Bytes>(one.slice.end - one.slice.begin) *
                           size_of(plan_.targets[one.slice.target].dtype);
        const auto place = out.subspan(one.slice.line_begin - range.begin, size);
        if (!is_plain) {
            convert(round, i, place);
        }
        if (has_digests_) {
            digests_.add(one.slice, place);
        }
        hand_out(one.slice, place);
    }
    if (options_.write) {
        write(range, out);
    }
}

void Writer::put_done(const DoneBlock& block, const plan::Slice& slice,
                      std::span<const std::byte> bytes) {
    digests_.add_done(block);
    n_written_down_ = digests_.finished().size();
    hand_out(slice, bytes);
}

void Writer::hand_out(const plan::Slice& slice, std::span<const std::byte> bytes) {
    if (options_.on_slice) {
        options_.on_slice(slice, bytes);
    }
}

void Writer::convert(const Round& round, std::size_t i, std::span<std::byte> out) {
    const Assembled& one = round.slices[i];
    const plan::Target& target = plan_.targets[one.slice.target];
    if (target.mix) {
        sums_.finish(round, i, out);
        return;
    }
    if (target.fold) {
        factors_.fold(one.slice.target, one.slice.begin, one.slice.end, one.stored, out);
        return;
    }
    // Added in the wider of both types: the sum is rounded to the one that is written.
    const bool adds_before = size_of(target.stored) >= size_of(target.dtype);
    const auto constant = static_cast<float>(target.add);
    if (target.add != 0 && adds_before) {
        numeric::add_constant(target.stored, one.stored, constant);
    }
    numeric::convert(target.stored, one.stored, target.dtype, out);
    if (target.add != 0 && !adds_before) {
        numeric::add_constant(target.dtype, out, constant);
    }
}

void Writer::write(plan::LineRange range, std::span<const std::byte> bytes) {
    sink_.write(range, bytes);
    since_flush_ += bytes.size();
    if (journal_ && is_flush_due()) {
        flush();
    }
}

/// What is not synced outlives this process from the moment it is written.
bool Writer::is_flush_due() const {
    return !options_.sync || since_flush_ >= kFlushBytes ||
           wall_seconds() - flushed_at_ >= kFlushSeconds;
}

void Writer::flush() {
    sink_.sync();
    write_journal();
    since_flush_ = 0;
    flushed_at_ = wall_seconds();
}

void Writer::keep() noexcept {
    if (journal_) {
        (void)mpi::error_of([&] { flush(); });
    }
}

void Writer::write_journal() {
    // Sums alone are no work to go on with.
    if (journal_ && !digests_.finished().empty()) {
        const auto sums = record_sums_ ? record_sums_->take_new() : std::vector<RangeSum>();
        journal_->append(digests_.finished().subspan(n_written_down_), sums);
        n_written_down_ = digests_.finished().size();
    }
}

void Writer::close() {
    sink_.finish();
    write_journal();
}

}  // namespace shardweld::execute
