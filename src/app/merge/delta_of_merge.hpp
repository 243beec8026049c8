// The delta that is written behind a merge, as the command delta writes it.
#pragma once

#include <vector>

#include "app/delta/write_delta.hpp"
#include "app/report/session.hpp"
#include "mpi/free_run.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// Collective. Everything about --delta_against and --delta_dir that is known before there is a
/// model; nothing where they are not given. Error(usage) where one of both directories is the
/// target or in it; errors of check_delta.
void check_delta_of(const Session& session);

/// Collective. Error(mismatch) where a model of these targets has other tensors than that of
/// --delta_against; nothing where no delta is asked for.
void check_planned_delta(const Session& session, const std::vector<plan::Target>& targets);

/// Collective. Writes the delta to the model of the session, which is there; nothing where none is
/// asked for. Errors of write_delta, with the command that goes on.
void write_delta_of(const Session& session, const mpi::WhyStop& why_stop);

/// The means of a session, for write_delta.
DeltaWork work_of(const Session& session, const mpi::WhyStop& why_stop);

}  // namespace shardweld::app
