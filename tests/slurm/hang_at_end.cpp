// An MPI whose end hangs (LD_PRELOAD).
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int MPI_Finalize() {
    for (;;) {
        ::pause();
    }
}
