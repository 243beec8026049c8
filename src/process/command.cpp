#include "command.hpp"

#include <cerrno>

#include "core/process/system.hpp"

namespace shardweld::process {

const std::vector<std::string>& variables_of_ranks() {
    static const std::vector<std::string> names = {
        "OMPI_COMM_", "OMPI_UNIVERSE", "OMPI_APP_", "OMPI_NUM_",    "OMPI_FIRST_",
        "OMPI_FILE_", "PMIX_",         "PMI_",      "PRTE_",        "HYDRA_",
        "MPI_LOCAL",  "MPIEXEC_",      "PALS_",     "SLURM_PROCID", "SLURM_LOCALID"};
    return names;
}

std::string fault_of(const std::optional<Ending>& ending) {
    if (!ending) {
        return "cannot be started: " + text_of_errno(errno);
    }
    if (ending->signal) {
        return "was ended by signal " + std::to_string(*ending->signal);
    }
    return ending->is_success()
               ? ""
               : "ended with exit code " + std::to_string(ending->code.value_or(-1));
}

}  // namespace shardweld::process
