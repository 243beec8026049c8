// --drop_consumed: the input is removed while the output is written, so that there is room for it
// where both do not fit. Nothing goes that is not in the output, safely on the disk, read back and
// in the journal.
#pragma once

#include "execute/run.hpp"
#include "io/directory.hpp"
#include "mpi/free_run.hpp"
#include "publish/target.hpp"

#include "planned.hpp"

namespace shardweld::app {

/// Bytes that a rank writes at most before it gives back what they were made of.
inline constexpr Bytes kDropEvery = Bytes{16} << 20U;

/// Collective. What of the input can go. Error(unsupported) where it holds what the output does not
/// carry, lies in a cache of the Hub, where parts of files cannot be given back, or nothing can go;
/// Error(target) where the target is not made beside itself; Error(io) for files that are links,
/// have other names, are not writable, or that another program has open.
Droppable find_droppable(const Planned& planned);

/// Collective. Reads everything, and holds it against its checksums, its copies and its masters, as
/// nothing can be looked at again later. Then tells the plan to compare no more.
void prove_before_dropping(Planned& planned, const mpi::WhyStop& why_stop);

/// Local, the first rank. Leaves a note in the checkpoint, before anything goes, and tells the
/// report.
void note_dropping(const Planned& planned, const publish::PartialDirectory& partial);

/// Local, the first rank: after a failure. Takes the note back where nothing is gone.
void take_note_back(const Planned& planned, const publish::PartialDirectory& partial) noexcept;

/// Makes a run give back what it consumes; `planned` and `directory` must outlive it.
void drop_behind(const Planned& planned, const io::Directory& directory, execute::RunOptions& run);

/// Local, the first rank, when the target is there: removes the files, and the note.
void remove_dropped(const Planned& planned, const fs::path& target);

/// Collective. Where an earlier run has made the target appear, and did not get to removing all
/// files: removes them. Whether it was so.
bool finish_dropping(const Session& session);

}  // namespace shardweld::app
