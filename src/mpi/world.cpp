#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <dlfcn.h>

#include "comm.hpp"
#include "entry.hpp"
#include "library.hpp"

namespace shardweld::mpi {

namespace {

// Read outside the program's own options: whether MPI may be initialised has to be known before
// there is a rank to ask.
const char* variable(const char* name) {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
}

/// Open MPI's plugins lie beside its libraries, one of which this process has mapped; or they are
/// a part of it.
bool open_mpi_offers_pmi() {
    (void)entry_to(MpiLibrary::open_mpi);
    const std::vector<std::string> plugins = pmi_plugins(variable);
    if (std::any_of(plugins.begin(), plugins.end(), [](const std::string& plugin) {
            return dlsym(RTLD_DEFAULT, (plugin + "_component").c_str()) != nullptr;
        })) {
        return true;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const std::size_t at = line.find('/');
        const fs::path library(at == std::string::npos ? "" : line.substr(at));
        if (library.filename().string().starts_with("libopen-pal.so")) {
            return has_plugin(library.parent_path(), plugins);
        }
    }
    return false;
}

}  // namespace

std::string library_name() {
    try {
        return entry_to(library_of(variable)).name();
    } catch (const Error&) {
        return "none";
    }
}

int torch_processes() {
    return torch_processes(variable);
}

std::unique_ptr<Comm> world_comm(Pulse& starting) {
    const MpiLibrary library = library_of(variable);
    const int promised = promised_ranks(variable, library, open_mpi_offers_pmi);
    if (promised == 0) {
        return serial_comm();
    }
    std::unique_ptr<Comm> comm = entry_to(library).start(starting);
    // More than promised is possible (Slurm counts the tasks of one component of a job); fewer
    // means that the tasks did not find each other.
    if (comm->size() < promised) {
        throw Error(ErrorCode::launch,
                    "the launcher started " + std::to_string(promised) + " tasks, but MPI sees " +
                        std::to_string(comm->size()),
                    how_to_start(library));
    }
    return comm;
}

}  // namespace shardweld::mpi
