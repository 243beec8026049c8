// One of the outputs that are made from one read: its bytes, and what an earlier run has done of
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/schedule/derived_output.hpp"

#include "round.hpp"
#include "run_options.hpp"
#include "source.hpp"
#include "writer.hpp"

namespace shardweld::execute {

/// Writes one output of a run: as the rounds are, or as they are for the primary output.
class OutputTask {
  public:
    /// `primary`: the output whose rounds are executed, which may be this one; nullptr: there is no
    /// other. Error(unsupported) as plan::DerivedOutput.
    OutputTask(const OutputWork& output, const SourceFiles& source, int rank,
               const plan::Plan* primary);

    /// Collective, once. What an earlier run has done is taken over: blocks are read back where
    /// they have to be, and those that are right count as done. Error(io), Error(stopped).
    void take_over(mpi::Comm& comm, const SourceFiles& source);
    /// The parts of the primary output's space that need no round, as far as this output goes.
    [[nodiscard]] std::vector<plan::OutputRange> done_of_primary() const;

    /// Makes what belongs to a round of the primary output, of which `range` is this rank's part,
    /// and is not done yet. Error as Writer::write_round.
    void write_round(const Round& round, plan::OutputRange range);
    /// Before the rounds, whose last block may be open: writes this rank's share of the constants.
    void put_constants(const mpi::Comm& comm);
    /// Collective. Error(internal) unless all bytes are there, each once.
    void require_whole(mpi::Comm& comm) const;

    [[nodiscard]] bool has_digests() const { return options_.digests; }
    [[nodiscard]] Writer& writer() { return writer_; }
    [[nodiscard]] Bytes buffer_bytes() const { return writer_.buffer_bytes() + arranged_.used(); }
    [[nodiscard]] const Writer& writer() const { return writer_; }
    /// What this rank read back and wrote.
    [[nodiscard]] RankCounts counts() const;

  private:
    void put_part(const Round& round, const StoredSlice& from, const plan::OutputMapping& relation,
                  plan::OutputRange part);
    void put_slices(std::uint32_t term, std::vector<StoredSlice> slices);
    [[nodiscard]] StoredSlice assembled(const Round& round, const StoredSlice& from,
                                        const plan::OutputMapping& relation,
                                        const plan::Slice& slice);

    const plan::Plan& plan_;
    const io::Directory& directory_;
    const RunOptions& options_;
    const plan::Plan* primary_;
    std::optional<plan::DerivedOutput> derived_;
    Writer writer_;
    Buffer arranged_;  ///< a strip whose elements stand in another order than in the primary output
    std::vector<plan::OutputRange> done_;  ///< by an earlier run
    RankCounts counts_;
};

}  // namespace shardweld::execute
