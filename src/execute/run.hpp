// Executes a plan: reads, exchanges, converts and writes in memory-bounded rounds.
#pragma once

#include <span>
#include <vector>

#include "mpi/comm.hpp"
#include "plan/plan.hpp"

#include "run_options.hpp"
#include "source.hpp"

namespace shardweld::execute {

/// Collective. As run() below, for each output, all in the rounds of the first one's plan: each
/// input byte is read once. The first one's options say what becomes of the run (why_stop,
/// on_progress). A result for each; what was read and sent is in all of them.
/// Error(unsupported) as plan::relations_of.
std::vector<Result> run(mpi::Comm& comm, std::span<const OutputWork> outputs,
                        const SourceFiles& source);

/// Collective. Writes the tensor bytes of all files of the placement into `directory` (files must
/// exist: create_files), and into no other that gets its name: Error(target); without `write` it
/// only compares replicas and hands finished bytes to `on_slice` and the digests, where asked for.
/// Errors of any rank are agreed by all: Error(io), Error(corrupt), Error(space)... Differences
/// among replicas are returned, not thrown. With a journal, blocks written earlier are read back
/// and done again where they differ; Error(stopped) when a rank has a reason to stop, everything
/// whole on the disk and in the journal; other errors leave there what the ranks that could write
/// have finished. Error(internal) when the bytes written and those done earlier are not the plan's,
/// each once.
Result run(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
           const io::Directory& directory, const RunOptions& options);

/// Collective. Creates all files of the placement with their headers and full size, and settles the
/// placement. A file that has its size already keeps its tensor bytes.
/// Error(io), Error(space), Error(unsupported) when this build cannot make such files.
CreatedFiles create_files(mpi::Comm& comm, plan::Plan& plan, const io::Directory& directory,
                          bool sync = false);

}  // namespace shardweld::execute
