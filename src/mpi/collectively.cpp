#include <algorithm>
#include <optional>

#include "core/codec.hpp"
#include "core/error_of.hpp"

#include "comm.hpp"

namespace shardweld::mpi {

namespace {

/// "rank 1 (node7) and 2 more", once: what ranks agreed on before has its rank already.
Error told_by(Error error, const Comm& comm, Index others) {
    const auto is_rank = [](const std::string& where) { return where.starts_with("rank "); };
    if (std::any_of(error.context().begin(), error.context().end(), is_rank)) {
        return error;
    }
    return error.add_context("rank " + std::to_string(comm.world_rank()) + " (" + comm.host() +
                             ")" + (others == 0 ? "" : " and " + std::to_string(others) + " more"));
}

}  // namespace

void collectively(Comm& comm, const std::function<void()>& local) {
    const std::optional<Error> mine = error_of(local);
    if (comm.size() == 1) {
        comm.pulse().beat();
        if (mine) {
            throw Error(*mine);
        }
        return;
    }
    // One reduction when all is well: 0, else the size less the lowest failing rank.
    const Index worst = comm.all_max(mine ? comm.size() - comm.rank() : 0);
    if (worst == 0) {
        return;
    }
    const Index failed = comm.all_sum(mine ? 1 : 0);
    const int speaker = static_cast<int>(comm.size() - worst);
    ByteWriter report;
    if (comm.rank() == speaker) {
        report.put(told_by(*mine, comm, failed - 1));
    }
    throw ByteReader(comm.broadcast(report.take(), speaker)).get<Error>();
}

}  // namespace shardweld::mpi
