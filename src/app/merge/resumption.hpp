// What a merge does about an earlier one that did not finish: compares what they are made from,
// reads the journal, begins a new part of it.
#pragma once

#include "app/messages/log.hpp"
#include "mpi/comm.hpp"

#include "state.hpp"

namespace shardweld::app {

/// The facts that the options alone tell.
publish::RunFacts way_of(const Job& job, const JobOutput& output);

/// Collective. What the output depends on; inputs are looked at by one rank each, and rank 0, which
/// has their digests, alone knows them.
publish::RunFacts run_facts(const Run& run, const Output& output, const Input& input);

/// Collective; `partial` is rank 0's. What is to be taken over of a partial directory's journal,
/// the same on every rank; files that are not the plan's are removed. Nothing when it is a new one.
/// Errors as publish::read_header and require_same.
execute::Resumption take_up(mpi::Comm& comm, const plan::Plan& plan, const publish::RunFacts& facts,
                            publish::PartialDirectory* partial);

/// Says how much of the output's `total` bytes was taken over, and reports it.
void note_reuse(const execute::Result& result, Bytes total, OutputReport& report, Log& log);

/// Whether an input that this rank sees is no longer what `facts` say, so that no later run can go
/// on. What cannot be looked at may come back. Local; fails in no way.
bool has_changed_input(const publish::RunFacts& facts, const plan::Visibility& visibility, int rank,
                       const fs::path& directory) noexcept;

/// "3.1 GB of 4.0 GB" of what is taken up; "" where nothing is.
std::string taken_text(const execute::Resumption& resumption, const plan::Plan& plan);

/// When a run has stopped in order and no rank writes any more: notes how the output's files look,
/// so that the next run can tell that nobody has touched them. Local; fails in no way.
void stamp_output(const plan::Plan& plan, const publish::PartialDirectory& partial) noexcept;

/// Adds to an error how much of the output is kept, and how to go on, where there is something; and
/// that a run that was stopped has added nothing to the `n_known` that it found. Local; fails in no
/// way.
void tell_kept(Error& error, const plan::Plan& plan, const publish::PartialDirectory& partial,
               std::size_t n_known) noexcept;

}  // namespace shardweld::app
