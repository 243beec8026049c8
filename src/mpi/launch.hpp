// How this process was started, read from the variables that launchers set.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::mpi {

/// The value of an environment variable, or nullptr.
using Lookup = std::function<const char*(const char*)>;

/// The MPI library whose start-up variables count.
enum class MpiLibrary { open_mpi, mpich };

/// Whether a launcher offers PMI-1 or PMI-2 (MPICH's Hydra, Intel MPI, Slurm) or what Cray's MPICH
/// asks (PALS).
bool is_started_by_pmi(const Lookup& environment);

/// What to type instead, when ranks do not find each other.
const char* how_to_start(MpiLibrary library);

/// Whether the Open MPI at hand was built against the PMI of this launcher; asked only where a
/// launcher offers one.
using OffersPmi = std::function<bool()>;

/// The plugins of Open MPI, one of which joins ranks through the PMI of Flux or of Slurm.
std::vector<std::string> pmi_plugins(const Lookup& environment);

/// Whether one of them lies beside an Open MPI's libraries in `library_dir`.
bool has_plugin(const fs::path& library_dir, const std::vector<std::string>& names);

/// Ranks that the launcher promises: 0 when no launcher is seen (run serially, without MPI_Init),
/// 1 or more when MPI is to be initialised (1 also when the number is not told).
/// Error(launch) when several tasks were started in a way that this MPI library cannot join.
int promised_ranks(const Lookup& environment, MpiLibrary library, const OffersPmi& offers_pmi = {});

/// Processes that torchrun, or another launcher of torch's, has started, none of which knows the
/// others by MPI; 0 when there is only one, or MPI's launcher has started them.
int torch_processes(const Lookup& environment);

/// Whether this node has a network that MPI libraries reach by other means than sockets
/// (InfiniBand, Omni-Path, Slingshot, BXI, ...). `root` is "/" but for tests.
bool has_fabric(const fs::path& root);

/// The variables by which Open MPI takes at once what it takes on a node without a fabric anyway,
/// after probing for seconds; none where there is a fabric or the user has chosen.
std::map<const char*, const char*> quick_transport(const Lookup& environment, const fs::path& root);

}  // namespace shardweld::mpi
