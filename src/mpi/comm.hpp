// Ranks and the few collective operations the program uses; also works without mpirun as one rank.
// The only place that talks to MPI.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "shardweld/error.hpp"

#include "pulse.hpp"

namespace shardweld::mpi {

/// A group of ranks. All member functions are collective unless marked local; MPI is called from
/// one thread.
class Comm {
  public:
    Comm() = default;
    virtual ~Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;

    [[nodiscard]] virtual int rank() const = 0;  // local
    /// What people call this rank: its number among all that were started.
    [[nodiscard]] virtual int world_rank() const { return rank(); }  // local
    [[nodiscard]] virtual int size() const = 0;                      // local
    [[nodiscard]] virtual const std::string& host() const = 0;       // local
    /// Library and version, for reports; "none" without MPI.
    [[nodiscard]] virtual std::string library() const = 0;  // local

    /// The ranks that give the same `part`, in their order, as a group of their own. A step of one
    /// group that its ranks take as a sign of life is one for this group, too. Lives no longer than
    /// this one.
    virtual std::unique_ptr<Comm> split(int part) = 0;

    /// Ends all ranks at once with this exit code: for an error of one rank that can no longer be
    /// agreed. Local; does not return when there are other ranks.
    virtual void abort(int code) = 0;

    virtual void barrier() = 0;
    /// Bytes of `root` on every rank (any size, also beyond 2 GiB).
    virtual ByteBuffer broadcast(ByteBuffer bytes, int root) = 0;
    /// Every rank's bytes, in rank order, on every rank.
    virtual std::vector<ByteBuffer> all_gather(ByteView mine) = 0;
    virtual Index all_max(Index value) = 0;
    virtual Index all_sum(Index value) = 0;

    /// Exchanges messages whose sizes both sides already know: to_send[r] goes to rank r,
    /// to_receive[r] is filled from rank r (own rank: copied). At most `limit` bytes travel between
    /// a pair in one step; returns the number of steps (the same on all ranks: ceil(largest message
    /// / limit), 0 when no rank sends). Counts above 2 GiB are safe.
    virtual Index exchange(std::span<const ByteView> to_send, std::span<const ByteSpan> to_receive,
                           Bytes limit) = 0;

    /// Raises a flag that every rank soon sees in alarm(); local, never blocks. For phases in which
    /// ranks run freely.
    virtual void raise_alarm() = 0;
    /// Whether some rank has raised the flag; local, cheap, never blocks. To be called often:
    /// others take it as a sign of life.
    virtual bool alarm() = 0;
    /// Ends a free-running phase: all ranks arrive and the flag is cleared. While others still run,
    /// `wants_alarm` is asked now and then; the flag is raised when it says so.
    virtual void end_of_free_run(const std::function<bool()>& wants_alarm) = 0;
    void end_of_free_run() { end_of_free_run({}); }

    /// When this rank last heard from the others; for a watching thread. Local.
    [[nodiscard]] Pulse& pulse() { return *pulse_; }

  protected:
    /// A part of a larger group has the pulse of that group.
    explicit Comm(Pulse& shared) : pulse_(&shared) {}

  private:
    Pulse own_;
    Pulse* pulse_ = &own_;
};

/// One rank, no MPI.
std::unique_ptr<Comm> serial_comm();

/// Processes that torchrun or the like has started, each of which would be a world of its own; 0
/// when this is no such process. Local.
int torch_processes();

/// Initialises MPI (MPI_THREAD_FUNNELED) when launched by mpirun or srun, else returns
/// serial_comm(). Error(launch) when the environment shows that several tasks were started as
/// singletons (SLURM_STEP_NUM_TASKS or PMI_SIZE > 1 with neither OMPI_COMM_WORLD_SIZE nor
/// PMIX_RANK), saying what to do (srun --mpi=pmix). `starting` tells a watching thread which call
/// of MPI this rank is in.
std::unique_ptr<Comm> world_comm(Pulse& starting);
inline std::unique_ptr<Comm> world_comm() {
    Pulse unwatched;
    return world_comm(unwatched);
}

/// Runs `local` on this rank, then agrees: when any rank threw, every rank throws the same Error
/// (the lowest failing rank's, with "rank R (host)" among its places when there is more than one
/// rank). Exceptions of other kinds are errors as error_of has them. Collective.
void collectively(Comm& comm, const std::function<void()>& local);

/// Runs `local` on rank 0 alone; what it throws there, every rank throws. Collective.
inline void on_first(Comm& comm, const std::function<void()>& local) {
    collectively(comm, [&] {
        if (comm.rank() == 0) {
            local();
        }
    });
}

/// What `local` gives on this rank, or the Error that every rank throws. Collective.
template <typename F>
auto collectively_get(Comm& comm, F&& local) -> decltype(local()) {
    std::optional<decltype(local())> result;
    collectively(comm, [&] { result.emplace(local()); });
    return std::move(*result);
}

}  // namespace shardweld::mpi
