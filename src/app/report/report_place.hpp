// Whether a report can be written when all is done, asked before anything is.
// Knows options and directories; nothing of what is reported.
#pragma once

#include <optional>

#include "shardweld/mpi/comm.hpp"

#include "../cli/options.hpp"

namespace shardweld::app {

/// Local. `report` is an older report or nothing yet, its directory is there and may be written;
/// what lies in `target`, or in a directory that is made for it, will be there. Error(io).
void require_report_place(const fs::path& report, const std::optional<fs::path>& target);

/// Collective. The same of --report, where there is one, on the first rank, which writes it.
void check_report(mpi::Comm& comm, const Options& options, const std::optional<fs::path>& target);

}  // namespace shardweld::app
