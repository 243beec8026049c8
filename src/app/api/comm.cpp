#include "shardweld/comm.hpp"

#include <utility>

#include "mpi/comm.hpp"

namespace shardweld {

Comm::Comm(std::unique_ptr<mpi::Comm> ranks) : ranks_(std::move(ranks)) {}
Comm::~Comm() = default;
Comm::Comm(Comm&& other) noexcept = default;
Comm& Comm::operator=(Comm&& other) noexcept = default;

int Comm::rank() const {
    return ranks_->rank();
}

int Comm::size() const {
    return ranks_->size();
}

Comm serial() {
    return Comm(mpi::serial_comm());
}

MpiSession::MpiSession(int /*argc*/, char** /*argv*/) : world_(mpi::world_comm()) {}

}  // namespace shardweld
