// An MPI whose rank 1 never arrives in its first collective call, as with networks that do not meet
// (LD_PRELOAD).
#include <cstdlib>
#include <cstring>

#include <unistd.h>

extern "C" {

int PMPI_Comm_dup(void* comm, void* duplicate);

__attribute__((visibility("default"))) int MPI_Comm_dup(void* comm, void* duplicate) {
    const char* rank = std::getenv("PMIX_RANK");
    if (rank == nullptr || std::strcmp(rank, "1") != 0) {
        return PMPI_Comm_dup(comm, duplicate);
    }
    for (;;) {
        ::pause();
    }
}
}
