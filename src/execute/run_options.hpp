// What a run is asked for, and what it tells.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/path.hpp"
#include "io/directory.hpp"
#include "mpi/free_run.hpp"
#include "numeric/quality.hpp"
#include "numeric/quantised_rows.hpp"
#include "plan/plan.hpp"

#include "count_unlike.hpp"
#include "journal.hpp"
#include "written_output.hpp"

namespace shardweld::execute {

/// Called on every rank, first and after each round, with the bytes of the output it has finished.
using OnProgress = std::function<void(Bytes done_by_this_rank)>;

/// A listener for finished slices: called on the rank that owns one, with its bytes, in output
/// order. May throw.
using OnSlice = std::function<void(const plan::Slice& slice, ByteView bytes)>;

/// A listener for slices that a resumed run does not read again: called on one rank with what an
/// earlier run counted in each.
using OnSeen = std::function<void(const plan::Slice& slice, const numeric::Census& census)>;

/// A listener for codes: called with those that a slice of a weight is made of: rows,
/// `rows.n_columns` wide, from the slice's first element on. Not of gpt-oss' experts, whose codes
/// lie by columns.
using OnCodes = std::function<void(const plan::Slice& slice, const numeric::QuantisedRows& rows,
                                   ByteView codes, ByteView scales)>;

/// What one rank did, in numbers.
struct RankCounts {
    Bytes bytes_read = 0;  ///< of tensor data
    Bytes bytes_written = 0;
    Bytes bytes_sent = 0;  ///< to other ranks
    Index rounds = 0;      ///< of reading and writing
    Index exchange_steps = 0;
    Index blocks_reused = 0;  ///< of an earlier run, found as its journal says
    Bytes bytes_reused = 0;
    Bytes bytes_seen = 0;     ///< of these, read back by an earlier run, not by this one
    Bytes bytes_damaged = 0;  ///< found otherwise, and written again
    double read_s = 0, exchange_s = 0, write_s = 0, wall_s = 0, cpu_s = 0;
    Bytes peak_bytes = 0;    ///< of the process so far: RssAnon + RssShmem, from the system
    Bytes buffer_bytes = 0;  ///< of this run, at most
};

/// The counts of one rank.
struct RankResult : RankCounts {
    std::string host;
};

/// The outcome of a run, the same on all ranks.
struct Result {
    std::vector<RankResult> ranks;        ///< all ranks, on every rank
    std::vector<Difference> differences;  ///< all ranks', sorted, on every rank
    std::vector<std::string>
        tensor_digests;  ///< xxh3-128 in hex by tensor, on rank 0 when asked for
    Written written;     ///< this rank's part
    std::map<std::uint32_t, numeric::Quality> quality;  ///< by tensor of codes, with the digests
};

/// What is written down of a run, and what an earlier one has done of it.
struct Resumption {
    fs::path journal;               ///< the directory of records; "": none are made
    Index session = 1;              ///< of this run, unlike any before
    std::vector<DoneBlock> blocks;  ///< written earlier, in output order, alike on all ranks
    std::vector<SeenBlock>
        seen;  ///< those that need not be read back again, in their order, alike on all ranks
    std::vector<RangeSum> sums;  ///< of what was read for them; on rank 0
    std::size_t n_known = 0;     ///< blocks written and blocks read back, by all runs; on rank 0

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.journal, self.session, self.blocks, self.seen);
    };
};

/// The ways in which one plan's tensors are moved, and who is told.
struct RunOptions {
    bool sync = true;       ///< fsync the output files
    bool direct = false;    ///< write past the page cache
    bool digests = false;   ///< compute xxh3-128 of every tensor
    bool write = true;      ///< false: nothing is written
    OnSlice on_slice;       ///< not empty: gets all finished bytes
    OnCodes on_codes = {};  ///< of weights that are made of codes, before their `on_slice`
    OnSeen on_seen = {};    ///< of what neither this run writes nor reads back
    OnProgress on_progress;
    mpi::OnShare on_read_back;  ///< of what an earlier run has written
    fs::path factors;           ///< the file that the plan's folds read their factors from
    /// What create_files made: nothing else is written to, and files that do not keep their size
    /// while they are written end the run with Error(io). Empty: not checked.
    std::vector<io::Identity> made = {};
    Resumption resumption;
    /// Not empty, on the first rank: makes the journal's directory, once, and before
    /// kUnsyncedSeconds have passed or when the run ends early. A shorter run has none to remove.
    std::function<void()> begin_journal = {};
    /// Not empty: asked after every round of this rank; a reason ends the run with Error(stopped).
    std::function<std::string()> why_stop;
};

/// One of several outputs that are made from one read.
struct OutputWork {
    const plan::Plan& plan;
    const io::Directory& directory;
    const RunOptions& options;
};

/// Root over (name, dtype, shape, digest), xxh3-128 in hex; independent of ranks and strategy.
std::string root_digest(const plan::Plan& plan, const std::vector<std::string>& tensor_digests);

}  // namespace shardweld::execute
