#include "writer.hpp"

#include <algorithm>

#include "core/error_of.hpp"
#include "core/in_context.hpp"
#include "core/process/system.hpp"
#include "numeric/census.hpp"
#include "numeric/convert.hpp"
#include "numeric/quantise.hpp"
#include "numeric/sum.hpp"

namespace shardweld::execute {

namespace {

/// Floats in a buffer, which begins at a disk's block.
std::span<float> floats_in(Buffer& buffer, std::size_t n) {
    const ByteSpan bytes = buffer.get(n * sizeof(float));
    return {reinterpret_cast<float*>(bytes.data()), n};
}

}  // namespace

std::span<float> Sums::strip(std::span<float> of, std::size_t i) const {
    return of.empty() ? of : of.subspan(begins_[i], begins_[i + 1] - begins_[i]);
}

void Sums::begin(const Round& round) {
    begins_.assign(1, 0);
    bool needs_base = false;
    for (const StoredSlice& one : round.slices) {
        const auto& mix = plan_.target_of(one.slice.tensor).mix;
        const Index n = mix ? one.slice.end - one.slice.begin : 0;
        begins_.push_back(begins_.back() + static_cast<std::size_t>(n));
        needs_base = needs_base || (mix && mix->n_strips() > 1);
    }
    sums_ = floats_in(sum_, begins_.back());
    bases_ = needs_base ? floats_in(base_, begins_.back()) : std::span<float>();
}

void Sums::add(const Round& round) {
    if (round.term == 0) {
        begin(round);
    }
    for (const std::size_t i : indices(round.slices)) {
        const StoredSlice& one = round.slices[i];
        const auto& mix = plan_.target_of(one.slice.tensor).mix;
        if (!mix) {
            continue;
        }
        const plan::Term& term = mix->terms[round.term];
        const numeric::Addend addend{term.stored, one.stored, static_cast<float>(term.add),
                                     term.weight};
        const std::span<float> sum = strip(sums_, i);
        const std::span<float> base = strip(bases_, i);
        if (round.term == 0) {
            numeric::begin_sum(addend, sum);
            std::copy_n(sum.begin(), base.size(), base.begin());
        } else if (mix->kind == plan::MixKind::sum) {
            numeric::add_product(addend, sum);
        } else {
            numeric::add_difference(addend, base.empty() ? sum : base, sum);
        }
    }
}

void Sums::finish(const Round& round, std::size_t i, ByteSpan out) {
    numeric::round_sum(strip(sums_, i), plan_.tensor(round.slices[i].slice.tensor).dtype, out);
}

Writer::Writer(const plan::Plan& plan, const SourceFiles& source, const io::Directory& directory,
               const RunOptions& options, int rank)
    : plan_(plan),
      options_(options),
      has_digests_(options.digests || !options.resumption.journal.empty()),
      has_little_(!is_noted_late(plan)),
      sink_(plan, directory, options, source),
      digests_(plan, options.digests),
      factors_(plan, options.factors),
      sums_(plan),
      converted_(plan.limits.converted),
      staged_(plan.limits.staged),
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

void Writer::write_round(const Round& round, plan::OutputRange range) {
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

void Writer::make(const Round& round, plan::OutputRange range) {
    const bool is_plain = std::ranges::none_of(round.slices, [&](const StoredSlice& one) {
        return plan_.target_of(one.slice.tensor).is_converted();
    });
    // Slices lie behind one another in both buffers, so without a numeric step the assembled bytes
    // are the output.
    const plan::Slice& first = round.slices.front().slice;
    const ByteSpan out =
        is_plain ? std::span(round.slices.front().stored.data(), range.end - range.begin)
                 : converted_.get(range.end - range.begin, file_offset_of(plan_, first));
    for (const std::size_t i : indices(round.slices)) {
        const auto made = plan::made_with(plan_, round.slices[i].slice);
        InlineVector<ByteSpan, 2> places;
        for (const plan::Slice& slice : made) {
            places.push_back(out.subspan(slice.output_begin - range.begin, plan_.bytes_of(slice)));
        }
        if (!is_plain) {
            convert(round, i, places.span());
        }
        for (const std::size_t at : indices(made)) {
            if (has_digests_) {
                digests_.add(made[at], places[at]);
            }
            hand_out(made[at], places[at]);
        }
    }
    if (options_.write) {
        write(range, out);
    }
}

void Writer::put_done(const DoneBlock& block, const plan::Slice& slice, ByteView bytes) {
    digests_.add_done(block);
    n_written_down_ = digests_.finished().size();
    hand_out(slice, bytes);
    note_seen(block, bytes);
}

void Writer::put_kept(const DoneBlock& block, const plan::Slice& slice,
                      const numeric::Census& census) {
    digests_.add_done(block);
    n_written_down_ = digests_.finished().size();
    if (options_.on_seen) {
        options_.on_seen(slice, census);
    }
}

/// Codes and scales are right together only: they are read again.
void Writer::note_seen(const DoneBlock& block, ByteView bytes) {
    const bool is_encoded =
        plan_.target_of(block.tensor).encode && !plan_.is_constant(block.tensor);
    if (!journal_ || is_encoded) {
        return;
    }
    const DType dtype = plan_.tensor(block.tensor).dtype;
    seen_.push_back(
        {block.number, block.tensor,
         numeric::is_counted(dtype) ? numeric::take_census(dtype, bytes) : numeric::Census()});
    since_flush_ += bytes.size();
    if (since_flush_ >= kFlushBytes || wall_seconds() - flushed_at_ >= kFlushSeconds) {
        flush();
    }
}

void Writer::hand_out(const plan::Slice& slice, ByteView bytes) {
    if (options_.on_slice) {
        options_.on_slice(slice, bytes);
    }
}

/// A strip of a weight becomes codes and scales.
void Writer::encode(const Round& round, std::size_t i, ByteSpan out, ByteSpan scales) {
    const StoredSlice& codes = round.slices[i];
    const plan::Target& target = plan_.target_of(codes.slice.tensor);
    const plan::Encode& how = *target.encode;
    const Index n = plan_.sources(codes.slice).extent;
    ByteView values = codes.stored;
    if (plan::staged_width(target) > 0) {
        const auto staged = staged_.get(static_cast<Bytes>(n) * size_of(how.weight));
        compute(round, i, staged);
        values = staged;
    }
    in_context("tensor ", target.name, [&] {
        const numeric::QuantisedRows rows{how.encoding, how.weight, n / how.n_columns,
                                          how.n_columns, how.global};
        numeric::quantise(rows, values, out, scales);
        if (options_.digests) {
            const Index first = codes.slice.begin / how.row_codes();
            quality_.add(codes.slice.tensor, codes.slice.begin,
                         numeric::quality_of(rows, first, values, out, scales));
        }
    });
}

/// Codes become rows of a weight, with the scales in the file of factors.
void Writer::decode(const StoredSlice& codes, ByteSpan out) {
    const plan::Target& target = plan_.target_of(codes.slice.tensor);
    const plan::Decode& how = *target.decode;
    const numeric::QuantisedRows rows{how.encoding, how.scales,
                                      (codes.slice.end - codes.slice.begin) / how.n_columns,
                                      how.n_columns, decoder_.global_of(how)};
    const auto scales =
        decoder_.scales_of(how, static_cast<Bytes>(codes.slice.begin / how.n_columns),
                           static_cast<Bytes>(rows.n_rows));
    in_context("tensor ", target.name, [&] {
        (how.is_turned() ? numeric::dequantise_turned : numeric::dequantise)(rows, codes.stored,
                                                                             scales, out);
    });
    if (options_.on_codes && !how.is_turned()) {
        options_.on_codes(codes.slice, rows, codes.stored, scales);
    }
}

/// Makes what a slice and those made with it are, in their places.
void Writer::convert(const Round& round, std::size_t i, std::span<const ByteSpan> places) {
    const plan::Slice& slice = round.slices[i].slice;
    if (plan_.is_constant(slice.tensor)) {
        const plan::WrittenTensor& tensor = plan_.tensor(slice.tensor);
        const auto size = static_cast<Index>(size_of(tensor.dtype));
        std::copy(tensor.literal.begin() + slice.begin * size,
                  tensor.literal.begin() + slice.end * size, places.front().begin());
    } else if (plan_.target_of(slice.tensor).encode) {
        encode(round, i, places.front(), places.size() > 1 ? places[1] : ByteSpan());
    } else {
        compute(round, i, places.front());
    }
}

/// The elements of the tensor of the model, in the type that they are written or encoded in.
void Writer::compute(const Round& round, std::size_t i, ByteSpan out) {
    const StoredSlice& one = round.slices[i];
    const plan::Target& target = plan_.target_of(one.slice.tensor);
    if (target.decode) {
        decode(one, out);
    } else if (!target.decoded.empty()) {
        decoder_.decode_parts(target, {one.slice.begin, one.slice.end - one.slice.begin},
                              one.stored, out);
    } else if (target.mix) {
        sums_.finish(round, i, out);
    } else if (target.fold || !target.folded.empty()) {
        const layout::Range elements = plan_.sources(one.slice);
        factors_.fold(plan_.tensors[one.slice.tensor].target, elements.lo, elements.end(),
                      one.stored, out);
    } else if (target.add != 0) {
        numeric::add_and_convert(target.stored, one.stored, static_cast<float>(target.add),
                                 target.cast(), out);
    } else {
        numeric::convert(target.stored, one.stored, target.cast(), out);
    }
}

void Writer::write(plan::OutputRange range, ByteView bytes) {
    sink_.write(range, bytes);
    since_flush_ += bytes.size();
    if (journal_ && is_flush_due()) {
        flush();
    }
}

/// Without sync blocks outlive this process once they are written, and the journal promises no
/// more.
bool Writer::is_flush_due() const {
    const double seconds = wall_seconds() - flushed_at_;
    return options_.sync ? since_flush_ >= kFlushBytes || seconds >= kFlushSeconds
                         : has_little_ || seconds >= kUnsyncedSeconds;
}

void Writer::flush() {
    sink_.sync();
    write_journal();
    since_flush_ = 0;
    flushed_at_ = wall_seconds();
}

void Writer::keep() noexcept {
    if (journal_) {
        (void)error_of([&] { flush(); });
    }
}

void Writer::write_journal() {
    // Sums alone are no work to go on with.
    if (journal_ && journal_->is_begun() && (!digests_.finished().empty() || !seen_.empty())) {
        const auto sums = record_sums_ ? record_sums_->take_new() : std::vector<RangeSum>();
        const auto blocks = digests_.finished().subspan(n_written_down_);
        journal_->append(blocks, sums, seen_);
        seen_.clear();
        n_written_down_ = digests_.finished().size();
    }
}

void Writer::close() {
    sink_.finish();
    if (options_.sync || has_little_) {
        write_journal();
    }
}

}  // namespace shardweld::execute
