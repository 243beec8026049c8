// What happens to assembled elements: numeric steps, then checksums, whoever asked for the bytes,
// the files and the journal.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

#include "comparer.hpp"
#include "decoder.hpp"
#include "digests.hpp"
#include "factors.hpp"
#include "journal.hpp"
#include "round.hpp"
#include "run_options.hpp"
#include "sink.hpp"
#include "tally.hpp"

namespace shardweld::execute {

/// The fp32 sums of a round's mixed targets, kept from one term to the next. Works inside
/// Limits::sums bytes. What it gives for an element does not depend on how a target is
/// cut into slices.
class Sums {
  public:
    explicit Sums(const plan::Plan& plan)
        : plan_(plan), sum_(plan.limits.sums), base_(plan.limits.sums / 2) {}

    /// Adds the round's term of every mixed slice. Terms of one part of the output space come in
    /// order.
    void add(const Round& round);

    /// Behind the last term: the sums of the round's `i`-th slice, rounded to the written type.
    void finish(const Round& round, std::size_t i, ByteSpan out);

    [[nodiscard]] Bytes buffer_bytes() const { return sum_.used() + base_.used(); }

  private:
    void begin(const Round& round);
    [[nodiscard]] std::span<float> strip(std::span<float> of, std::size_t i) const;

    const plan::Plan& plan_;
    Buffer sum_, base_;
    std::span<float> sums_;
    std::span<float> bases_;           ///< where several differences from it are added
    std::vector<std::size_t> begins_;  ///< of the slices in a strip, and its end
};

/// One rank's finished bytes.
class Writer {
  public:
    Writer(const plan::Plan& plan, const SourceFiles& source, const io::Directory& directory,
           const RunOptions& options, int rank);

    /// Whether anybody wants the bytes at all.
    [[nodiscard]] bool is_wanted() const;
    /// Makes the output's bytes of this rank's part of a round, when its last term is there.
    /// Error(io), Error(space): then nothing is written down any more.
    void write_round(const Round& round, plan::OutputRange range);
    /// A block found on the disk as it should be.
    void put_done(const DoneBlock& block, const plan::Slice& slice, ByteView bytes);

    /// Puts a block that is kept from an earlier run and not read again.
    void put_kept(const DoneBlock& block, const plan::Slice& slice, const numeric::Census& census);

    /// From now on nothing is written down: what follows may have to be done again.
    void stop_journal() { journal_.reset(); }
    /// Brings everything to the disk and writes down what is whole.
    void flush();
    /// Flushes for a run that fails elsewhere, as far as it can be done. Does nothing
    /// behind stop_journal().
    void keep() noexcept;
    /// Flushes and closes the files.
    void close();

    /// Collective: every tensor's digest in hex, on rank 0 (empty elsewhere).
    std::vector<std::string> gather_digests(mpi::Comm& comm) { return digests_.gather(comm); }
    /// Collective: how near codes are to weights, by target, on rank 0; with the digests.
    std::map<std::uint32_t, numeric::Quality> gather_quality(mpi::Comm& comm) const {
        return quality_.gather(comm);
    }
    /// What this rank has written, to be checked; at the end.
    [[nodiscard]] Written take_written() {
        Written written = digests_.take_written();
        written.held = sink_.take_held();
        return written;
    }
    [[nodiscard]] Bytes bytes_written() const { return sink_.bytes_written(); }
    /// What this rank has written, beside what it took over.
    [[nodiscard]] Tally tally(Bytes reused) const { return {bytes_written(), reused, put_}; }
    [[nodiscard]] Bytes buffer_bytes() const {
        return converted_.used() + staged_.used() + factors_.buffer_bytes() +
               decoder_.buffer_bytes() + sums_.buffer_bytes() + digests_.buffer_bytes();
    }

  private:
    void make(const Round& round, plan::OutputRange range);
    void convert(const Round& round, std::size_t i, std::span<const ByteSpan> places);
    void compute(const Round& round, std::size_t i, ByteSpan out);
    void decode(const StoredSlice& codes, ByteSpan out);
    void encode(const Round& round, std::size_t i, ByteSpan out, ByteSpan scales);
    void hand_out(const plan::Slice& slice, ByteView bytes);
    void write(plan::OutputRange range, ByteView bytes);
    [[nodiscard]] bool is_flush_due() const;
    void note_seen(const DoneBlock& block, ByteView bytes);
    void write_journal();

    const plan::Plan& plan_;
    const RunOptions& options_;
    bool has_digests_;
    bool has_little_;  ///< to write, as all ranks have on average
    Sink sink_;
    BlockDigests digests_;
    Factors factors_;
    Sums sums_;
    Buffer converted_;
    StripQualities quality_;
    Buffer staged_;  ///< a strip as it is quantised
    Decoder decoder_{factors_};
    std::optional<Journal> journal_;
    std::shared_ptr<RecordSums> record_sums_;  ///< of what is read; may be null
    std::size_t n_written_down_ = 0;           ///< of the finished blocks
    std::vector<SeenBlock> seen_;              ///< read back, not written down yet
    std::vector<plan::OutputRange> put_;       ///< in output order
    Bytes since_flush_ = 0;
    double flushed_at_;
};

}  // namespace shardweld::execute
