#include "launch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "shardweld/error.hpp"

namespace shardweld::mpi {

namespace {

/// The number in a variable; 0 when it is not set or is not a number.
int number_in(const Lookup& environment, const char* name) {
    const char* text = environment(name);
    int value = 0;
    if (text != nullptr &&
        std::from_chars(text, text + std::strlen(text), value).ec != std::errc()) {
        value = 0;
    }
    return value;
}

bool is_joined(const Lookup& environment, MpiLibrary library, const OffersPmi& offers_pmi) {
    const auto has = [&](const char* name) { return environment(name) != nullptr; };
    if (has("PMIX_RANK")) {
        return true;
    }
    switch (library) {
        case MpiLibrary::open_mpi:
            return has("OMPI_COMM_WORLD_SIZE") ||
                   (has("PMI_RANK") && has("PMI_SIZE") && offers_pmi && offers_pmi());
        case MpiLibrary::mpich:
            return is_started_by_pmi(environment);
    }
    return false;
}

}  // namespace

bool is_started_by_pmi(const Lookup& environment) {
    constexpr std::array kVariables{"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PALS_RANKID"};
    return std::any_of(kVariables.begin(), kVariables.end(),
                       [&](const char* name) { return environment(name) != nullptr; });
}

const char* how_to_start(MpiLibrary library) {
    return library == MpiLibrary::open_mpi
               ? "start with 'srun --mpi=pmix', or with the mpirun of the Open MPI that shardweld "
                 "runs with"
               : "start with 'srun --mpi=pmi2' (Cray: --mpi=cray_shasta), or with the mpiexec of "
                 "the MPICH that shardweld runs with";
}

int promised_ranks(const Lookup& environment, MpiLibrary library, const OffersPmi& offers_pmi) {
    const int tasks = std::max(number_in(environment, "SLURM_STEP_NUM_TASKS"),
                               number_in(environment, "PMI_SIZE"));
    if (!is_joined(environment, library, offers_pmi)) {
        if (tasks > 1) {
            throw Error(ErrorCode::launch,
                        std::to_string(tasks) +
                            " tasks were started in a way that this MPI library cannot join: each "
                            "would run alone on the whole checkpoint",
                        how_to_start(library));
        }
        return 0;
    }
    // Inside mpirun, Slurm's numbers count mpirun's daemons.
    const int ranks = number_in(environment, "OMPI_COMM_WORLD_SIZE");
    return ranks > 0 ? ranks : std::max(tasks, 1);
}

std::vector<std::string> pmi_plugins(const Lookup& environment) {
    const bool is_flux = environment("FLUX_JOB_ID") != nullptr;
    return is_flux ? std::vector<std::string>{"mca_pmix_flux"}
                   : std::vector<std::string>{"mca_pmix_s1", "mca_pmix_s2"};
}

bool has_plugin(const fs::path& library_dir, const std::vector<std::string>& names) {
    std::error_code failed;
    // Debian keeps an Open MPI in openmpi/lib.
    if (library_dir.filename() != "lib" && has_plugin(library_dir / "openmpi" / "lib", names)) {
        return true;
    }
    for (const fs::directory_entry& beside : fs::directory_iterator(library_dir, failed)) {
        const fs::path& directory = beside.path();
        const bool may_hold = directory.filename().string().starts_with("openmpi");
        if (may_hold && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                return fs::exists(directory / (name + ".so"), failed);
            })) {
            return true;
        }
    }
    return false;
}

int torch_processes(const Lookup& environment) {
    const auto has = [&](const char* name) { return environment(name) != nullptr; };
    // PMIX_RANK says nothing here: srun sets it for the task that torchrun itself is.
    const bool is_mpi = has("OMPI_COMM_WORLD_SIZE") || is_started_by_pmi(environment);
    // Pods of a cluster have WORLD_SIZE, whatever runs in them.
    const bool is_torch = has("TORCHELASTIC_RUN_ID") || has("LOCAL_RANK");
    const int processes = number_in(environment, "WORLD_SIZE");
    return is_torch && !is_mpi && processes > 1 ? processes : 0;
}

bool has_fabric(const fs::path& root) {
    constexpr std::array kClasses{"sys/class/infiniband", "sys/class/cxi", "sys/class/bxi",
                                  "sys/class/hsi"};
    constexpr std::array kDevices{"dev/hfi1_0", "dev/hfi1", "dev/ipath", "dev/ipath0",
                                  "dev/cxi0",   "dev/bxi0", "dev/mx0",   "dev/usnic_verbs_0"};
    std::error_code failed;
    const auto has_entries = [&](const char* name) {
        const fs::directory_iterator entries(root / name, failed);
        return !failed && entries != fs::directory_iterator();
    };
    return std::any_of(kClasses.begin(), kClasses.end(), has_entries) ||
           std::any_of(kDevices.begin(), kDevices.end(),
                       [&](const char* name) { return fs::exists(root / name, failed); });
}

std::map<const char*, const char*> quick_transport(const Lookup& environment,
                                                   const fs::path& root) {
    // Set by the user, or by mpirun --mca for its ranks.
    const bool is_chosen =
        environment("OMPI_MCA_pml") != nullptr || environment("OMPI_MCA_mtl") != nullptr;
    if (is_chosen || has_fabric(root)) {
        return {};
    }
    // Omni-Path, mostly, is looked for half a second. libfabric takes a second to see that there is
    // nothing for it (wheels of Open MPI 4.1.8 and 5.0.11), whatever pml is chosen.
    return {{"OMPI_MCA_pml", "ob1"}, {"OMPI_MCA_btl", "^ofi,openib,uct,usnic,ugni"}};
}

}  // namespace shardweld::mpi
