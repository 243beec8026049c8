#include "messages.hpp"

#include <cstring>

namespace shardweld::mpi {

const char* fault_of(const Messages& messages, Bytes limit, int rank, int n_ranks) {
    const auto n = as_size(n_ranks);
    const auto own = as_size(rank);
    if (messages.to_send.size() != n || messages.to_receive.size() != n) {
        return "exchange needs one message to send and one to receive per rank";
    }
    if (messages.to_send[own].size() != messages.to_receive[own].size()) {
        return "exchange: a rank's message to itself has two sizes";
    }
    return limit == 0 ? "exchange: the limit is 0 bytes" : nullptr;
}

void copy_own(const Messages& messages, int rank) {
    const auto own = as_size(rank);
    const auto source = messages.to_send[own];
    if (!source.empty()) {
        std::memcpy(messages.to_receive[own].data(), source.data(), source.size());
    }
}

}  // namespace shardweld::mpi
