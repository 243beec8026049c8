// Brings together what all ranks know of records' checksums, and reads what is missing.
#pragma once

#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "plan/visibility.hpp"

#include "record_sums.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// What became of the records that output is made of.
struct RecordCounts {
    Index checked = 0;  ///< have the stated sum
    Bytes checked_bytes = 0;
    Index unchecked = 0;  ///< were read in part only, and not worth to be read whole
    Bytes unchecked_bytes = 0;
    Index without = 0;     ///< state none
    Bytes bytes_read = 0;  ///< for this alone, by all
};

/// How much is read for nothing but the checksums.
enum class Completion {
    cheap,  ///< about a thirtieth of what was read, or 64 MiB
    all,
};

/// Collective. What was read of a record by any rank, now or by an earlier run, has to be as its
/// checksum says; bytes that were not read, or by two ranks, are read once more, each by one rank
/// that sees the file, the cheapest records first; `on_read` is told of that. The same on all
/// ranks. Error(corrupt) naming file, record and tensor of the first one that is wrong; Error(io),
/// Error(stopped).
RecordCounts check_records(mpi::Comm& comm, const RecordSums& sums, const SourceFiles& source,
                           const plan::Visibility& visibility,
                           Completion completion = Completion::cheap,
                           const mpi::WhyStop& why_stop = {}, const mpi::OnShare& on_read = {});

}  // namespace shardweld::execute
