// Phases that may take long.
#pragma once

#include <functional>
#include <string>

#include "comm.hpp"

namespace shardweld::mpi {

/// A reason to stop, "" while there is none; local. May be empty: there is never any.
using WhyStop = std::function<std::string()>;

/// What work calls at each of its steps: a part of a file, a file, a round. Others take it as a
/// sign of life; it may throw, which ends the work.
using OnStep = std::function<void()>;

/// Told how far a phase is: `done` of this rank's `own` part; the parts of all ranks make `total`.
using OnShare = std::function<void(Index done, Index own, Index total)>;

/// Error(stopped) when there is a reason.
void stop_if_asked(const WhyStop& why_stop);

/// Collective. Ranks go their own way through `work`. An error of any rank, and Error(stopped) when
/// one has a reason to stop, ends the phase for all at their next steps and is thrown on every
/// rank.
void run_freely(Comm& comm, const WhyStop& why_stop,
                const std::function<void(const OnStep&)>& work);

/// Collective. As `collectively`: every rank does all of its work or fails by itself, so that the
/// error is the same in every run.
void collectively_in_steps(Comm& comm, const std::function<void(const OnStep&)>& work);

}  // namespace shardweld::mpi
