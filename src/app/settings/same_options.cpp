#include "same_options.hpp"

#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

void require_same_program(mpi::Comm& comm, const std::string& mine) {
    const std::vector<std::string> all = mpi::gather(comm, mine);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(ErrorCode::launch,
                        "ranks 0 and " + std::to_string(rank) +
                            " run different programs: shardweld " + all[0] + " and " + all[rank],
                        "install one version on all nodes");
        }
    }
}

void require_same_options(mpi::Comm& comm, const std::string& text) {
    const std::vector<std::string> all = mpi::gather(comm, text);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(
                ErrorCode::usage,
                "ranks 0 and " + std::to_string(rank) + " were started with different options",
                "only directories may differ between ranks");
        }
    }
}

}  // namespace shardweld::app
