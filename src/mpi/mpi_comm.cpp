#include <algorithm>
#include <cstdlib>

#include "shardweld/mpi/comm.hpp"
#include "shardweld/mpi/library.hpp"

#include "alarm.hpp"
#include "calls.hpp"
#include "host.hpp"
#include "launch.hpp"
#include "transfer.hpp"

namespace shardweld::mpi {

namespace {

#ifdef OPEN_MPI
constexpr Library kLibrary = Library::open_mpi;
#else
constexpr Library kLibrary = Library::mpich;
#endif

/// MPI from initialisation to finalisation; does neither where the process has already done it.
class Session {
  public:
    Session() {
        int initialised = 0;
        check(MPI_Initialized(&initialised), "MPI_Initialized");
        if (initialised != 0) {
            return;
        }
        choose_transport();
        int provided = MPI_THREAD_SINGLE;
        check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
        owned_ = true;
    }
    ~Session() {
        int finalised = 0;
        if (owned_ && MPI_Finalized(&finalised) == MPI_SUCCESS && finalised == 0) {
            MPI_Finalize();
        }
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    Session(Session&&) = delete;
    Session& operator=(Session&&) = delete;

  private:
    static void choose_transport() {
        if (kLibrary != Library::open_mpi) {
            return;
        }
        const char* transport =
            quick_transport([](const char* name) { return std::getenv(name); }, "/");
        if (transport != nullptr) {
            setenv("OMPI_MCA_pml", transport, 0);
        }
    }

    bool owned_ = false;
};

/// A duplicate of MPI_COMM_WORLD whose calls return their errors.
class World {
  public:
    World() {
        check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
        check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    ~World() { MPI_Comm_free(&comm_); }
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    World(World&&) = delete;
    World& operator=(World&&) = delete;

    [[nodiscard]] MPI_Comm get() const { return comm_; }

  private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

class MpiComm final : public Comm {
  public:
    MpiComm()
        : rank_(rank_in_group(world_.get())),
          size_(size_of_group(world_.get())),
          alarm_(world_.get(), pulse()) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] const std::string& host() const override { return host_; }
    void abort(int code) override {
        if (size() > 1) {
            MPI_Abort(MPI_COMM_WORLD, code);
        }
    }
    [[nodiscard]] std::string library() const override { return library_name(); }

    void barrier() override {
        const Pulse::Wait wait(pulse(), "a barrier");
        check(MPI_Barrier(world_.get()), "MPI_Barrier");
    }
    std::vector<std::byte> broadcast(std::vector<std::byte> bytes, int root) override {
        const Pulse::Wait wait(pulse(), "a broadcast");
        return mpi::broadcast(world_.get(), std::move(bytes), root);
    }
    std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
        const Pulse::Wait wait(pulse(), "what every rank has");
        return mpi::all_gather(world_.get(), mine);
    }
    Index all_max(Index value) override {
        const Pulse::Wait wait(pulse(), "the agreement of all ranks");
        maximum_of_all(world_.get(), {&value, 1});
        return value;
    }
    Index all_sum(Index value) override {
        const Pulse::Wait wait(pulse(), "the agreement of all ranks");
        check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_SUM, world_.get()),
              "MPI_Allreduce");
        return value;
    }
    Index exchange(std::span<const std::span<const std::byte>> to_send,
                   std::span<const std::span<std::byte>> to_receive, Bytes limit) override {
        const Pulse::Wait wait(pulse(), "an exchange of tensor bytes");
        return mpi::exchange(world_.get(), {to_send, to_receive}, limit);
    }

    void raise_alarm() override { alarm_.raise(); }
    bool alarm() override { return alarm_.seen(); }
    void end_of_free_run(const std::function<bool()>& wants_alarm) override {
        const Pulse::Wait wait(pulse(), "the others to finish their parts");
        alarm_.drain(wants_alarm);
    }

  private:
    Session session_;  // first in, last out
    World world_;
    int rank_;
    int size_;
    std::string host_ = host_name();
    Alarm alarm_;
};

}  // namespace

// The only read of the environment outside the program's own options: whether MPI may be
// initialised has to be known before there is a rank to ask.
std::unique_ptr<Comm> world_comm() {
    const int promised =
        promised_ranks([](const char* name) { return std::getenv(name); }, kLibrary);
    if (promised == 0) {
        return serial_comm();
    }
    auto comm = std::make_unique<MpiComm>();
    // More than promised is possible (Slurm counts the tasks of one component of a job); fewer
    // means that the tasks did not find each other.
    if (comm->size() < promised) {
        throw Error(
            ErrorCode::launch,
            "the launcher started " + std::to_string(promised) + " tasks, but MPI sees " +
                std::to_string(comm->size()) +
                ": use the launcher of the MPI library that shardweld is built with (mpirun, or "
                "srun --mpi=pmix)");
    }
    return comm;
}

}  // namespace shardweld::mpi
