#include "launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "shardweld/core/error.hpp"

namespace shardweld::mpi {

namespace {

/// The number in a variable; 0 when it is not set or is no number.
int number_in(const Lookup& environment, const char* name) {
    const char* text = environment(name);
    int value = 0;
    if (text != nullptr &&
        std::from_chars(text, text + std::strlen(text), value).ec != std::errc()) {
        value = 0;
    }
    return value;
}

bool is_joined(const Lookup& environment, Library library) {
    const auto has = [&](const char* name) { return environment(name) != nullptr; };
    if (has("PMIX_RANK")) {
        return true;
    }
    switch (library) {
        case Library::open_mpi:
            return has("OMPI_COMM_WORLD_SIZE");
        case Library::mpich:
            return has("PMI_RANK") || has("PMI_SIZE") || has("MPI_LOCALNRANKS");
    }
    return false;
}

}  // namespace

int promised_ranks(const Lookup& environment, Library library) {
    const int tasks = std::max(number_in(environment, "SLURM_STEP_NUM_TASKS"),
                               number_in(environment, "PMI_SIZE"));
    if (!is_joined(environment, library)) {
        if (tasks > 1) {
            throw Error(
                ErrorCode::launch,
                std::to_string(tasks) +
                    " tasks were started, but the launcher offers no PMIx: each would run "
                    "alone on the whole checkpoint; start with 'srun --mpi=pmix' or with the "
                    "mpirun of the MPI library that shardweld is built with");
        }
        return 0;
    }
    // Inside mpirun, Slurm's numbers count mpirun's daemons.
    const int ranks = number_in(environment, "OMPI_COMM_WORLD_SIZE");
    return ranks > 0 ? ranks : std::max(tasks, 1);
}

}  // namespace shardweld::mpi
