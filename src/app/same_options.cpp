#include "same_options.hpp"

#include <span>

#include "shardweld/core/error.hpp"

namespace shardweld::app {

void require_same_options(mpi::Comm& comm, const std::string& text) {
    const auto all = comm.all_gather(std::as_bytes(std::span(text)));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(ErrorCode::usage, "ranks 0 and " + std::to_string(rank) +
                                              " were started with different options: only "
                                              "directories may differ between ranks");
        }
    }
}

}  // namespace shardweld::app
