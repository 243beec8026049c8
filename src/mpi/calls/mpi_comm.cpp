#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <set>

#include <sys/socket.h>

#include <mpi.h>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "mpi/entry.hpp"
#include "mpi/launch.hpp"
#include "mpi/pulse.hpp"

#include "calls.hpp"
#include "transfer.hpp"

namespace shardweld::mpi {

namespace {

/// Votes are non-blocking reductions, one after another; one ends when every rank has passed by, so
/// each end also shows that no rank hangs.
class Alarm {
  public:
    /// Duplicates `parent`: votes never meet its traffic. Collective.
    Alarm(MPI_Comm parent, Pulse& starting, Pulse& pulse);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    /// Local, never blocks.
    void raise() { raised_ = true; }
    /// Local, never blocks: casts this rank's vote and takes what others said.
    bool seen();
    /// All ranks arrive; clears the flag. While others are under way, `wants_alarm` is asked
    /// whether to raise it. Collective.
    void drain(const std::function<bool()>& wants_alarm);

  private:
    /// Whether a vote has ended; begins the next one where none is under way.
    bool vote(bool is_finished);

    Pulse& pulse_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Request vote_ = MPI_REQUEST_NULL;
    std::array<int, 2> mine_{};  ///< raised, still running
    std::array<int, 2> all_{};
    bool raised_ = false;  ///< by this rank
    bool heard_ = false;   ///< from another
};

Alarm::Alarm(MPI_Comm parent, Pulse& starting, Pulse& pulse) : pulse_(pulse) {
    const Pulse::Wait wait(starting, "MPI_Comm_dup");
    check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
}

Alarm::~Alarm() {
    // A vote that others have not cast is left alone: waiting for it could hang a rank that is
    // unwinding an error.
    MPI_Comm_free(&comm_);
}

bool Alarm::vote(bool is_finished) {
    if (vote_ == MPI_REQUEST_NULL) {
        mine_ = {raised_ ? 1 : 0, is_finished ? 0 : 1};
        check(MPI_Iallreduce(mine_.data(), all_.data(), static_cast<int>(mine_.size()), MPI_INT,
                             MPI_MAX, comm_, &vote_),
              "MPI_Iallreduce");
    }
    int is_over = 0;
    check(MPI_Test(&vote_, &is_over, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_over != 0) {
        pulse_.beat();
        heard_ = heard_ || all_[0] != 0;
    }
    return is_over != 0;
}

bool Alarm::seen() {
    (void)vote(false);
    return raised_ || heard_;
}

void Alarm::drain(const std::function<bool()>& wants_alarm) {
    // The first vote in which no rank runs any more is the last one, on every rank.
    sleep_until([&] {
        const bool is_last = vote(true) && all_[1] == 0;
        if (!is_last && wants_alarm && wants_alarm()) {
            raise();
        }
        return is_last;
    });
    raised_ = false;
    heard_ = false;
}

#ifdef OPEN_MPI
constexpr MpiLibrary kLibrary = MpiLibrary::open_mpi;
#else
constexpr MpiLibrary kLibrary = MpiLibrary::mpich;
#endif

std::string own_name() {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, ' ');
    int length = 0;
    check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
    // Some libraries add their whole configuration; the first part names the version.
    return text.substr(0, std::min(text.find_first_of(",\n"), as_size(length)));
}

/// The descriptors of this process that are TCP sockets; none where /proc is not to be read.
std::set<int> tcp_sockets() {
    std::set<int> sockets;
    std::error_code failed;
    for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
         at.increment(failed)) {
        const int fd = static_cast<int>(parse_index(at->path().filename().string()).value_or(-1));
        int protocol = 0;
        socklen_t size = sizeof protocol;
        if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
            protocol == IPPROTO_TCP) {
            sockets.insert(fd);
        }
    }
    return sockets;
}

/// Lets small messages go by TCP sockets that MPI has opened without waiting for each other. The
/// last that a rank says to its launcher are several: Open MPI 4.1.4 (PMIx 4.2.2) leaves it at
/// Nagle's rule, by which all but the first wait 40 ms for an acknowledgement.
void send_at_once(const std::set<int>& others) {
    for (const int fd : tcp_sockets()) {
        const int on = 1;
        if (!others.contains(fd)) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        }
    }
}

/// MPI from initialisation to finalisation; does neither where the process has already done it.
class MpiRuntime {
  public:
    explicit MpiRuntime(Pulse& starting) {
        int initialised = 0;
        check(MPI_Initialized(&initialised), "MPI_Initialized");
        if (initialised != 0) {
            return;
        }
        choose_transport();
        const std::set<int> others = tcp_sockets();
        int provided = MPI_THREAD_SINGLE;
        const Pulse::Wait wait(starting, "MPI_Init_thread");
        check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
        owned_ = true;
        send_at_once(others);
    }
    ~MpiRuntime() {
        int finalised = 0;
        if (owned_ && MPI_Finalized(&finalised) == MPI_SUCCESS && finalised == 0) {
            MPI_Finalize();
        }
    }
    MpiRuntime(const MpiRuntime&) = delete;
    MpiRuntime& operator=(const MpiRuntime&) = delete;

  private:
    static void choose_transport() {
        if (kLibrary == MpiLibrary::open_mpi) {
            for (const auto& [name, value] : quick_transport(std::getenv, "/")) {
                setenv(name, value, 0);
            }
        }
    }

    bool owned_ = false;
};

/// A group's communicator, whose calls return their errors.
class OwnedComm {
  public:
    /// A duplicate of MPI_COMM_WORLD.
    explicit OwnedComm(Pulse& starting) {
        const Pulse::Wait wait(starting, "MPI_Comm_dup");
        check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
        check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    /// A part of another one.
    OwnedComm(MPI_Comm whole, int part, Pulse& pulse) {
        const Pulse::Wait wait(pulse, "MPI_Comm_split");
        check(MPI_Comm_split(whole, part, rank_in_group(whole), &comm_), "MPI_Comm_split");
        check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    ~OwnedComm() { MPI_Comm_free(&comm_); }
    OwnedComm(const OwnedComm&) = delete;
    OwnedComm& operator=(const OwnedComm&) = delete;

    [[nodiscard]] MPI_Comm get() const { return comm_; }

  private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

class MpiComm final : public Comm {
  public:
    explicit MpiComm(Pulse& starting)
        : session_(std::in_place, starting),
          group_(starting),
          rank_(rank_in_group(group_.get())),
          size_(size_of_group(group_.get())),
          world_rank_(rank_),
          alarm_(group_.get(), starting, pulse()) {}
    MpiComm(MpiComm& whole, int part)
        : Comm(whole.pulse()),
          whole_(&whole),
          group_(whole.group_.get(), part, pulse()),
          rank_(rank_in_group(group_.get())),
          size_(size_of_group(group_.get())),
          world_rank_(whole.world_rank_),
          alarm_(group_.get(), pulse(), pulse()) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int world_rank() const override { return world_rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] const std::string& host() const override { return host_; }
    std::unique_ptr<Comm> split(int part) override {
        return std::make_unique<MpiComm>(*this, part);
    }
    void abort(int code) override {
        if (whole_ != nullptr || size() > 1) {
            MPI_Abort(MPI_COMM_WORLD, code);
        }
    }
    [[nodiscard]] std::string library() const override { return own_name(); }

    void barrier() override { (void)all_max(0); }
    ByteBuffer broadcast(ByteBuffer bytes, int root) override {
        const Pulse::Wait wait(pulse(), "a broadcast");
        return mpi::broadcast(group_.get(), std::move(bytes), root);
    }
    std::vector<ByteBuffer> all_gather(ByteView mine) override {
        const Pulse::Wait wait(pulse(), "what every rank has");
        return mpi::all_gather(group_.get(), mine);
    }
    Index all_max(Index value) override {
        const Pulse::Wait wait(pulse(), "the agreement of all ranks");
        reduce_in_place(group_.get(), {&value, 1}, MPI_MAX);
        return value;
    }
    Index all_sum(Index value) override {
        const Pulse::Wait wait(pulse(), "the agreement of all ranks");
        reduce_in_place(group_.get(), {&value, 1}, MPI_SUM);
        return value;
    }
    Index exchange(std::span<const ByteView> to_send, std::span<const ByteSpan> to_receive,
                   Bytes limit) override {
        const Pulse::Wait wait(pulse(), "an exchange of tensor bytes");
        return mpi::exchange(group_.get(), {to_send, to_receive}, limit);
    }

    void raise_alarm() override { alarm_.raise(); }
    bool alarm() override {
        if (whole_ != nullptr) {
            (void)whole_->alarm();
        }
        return alarm_.seen();
    }
    void end_of_free_run(const std::function<bool()>& wants_alarm) override {
        const Pulse::Wait wait(pulse(), "the others to finish their parts");
        alarm_.drain(wants_alarm);
    }

  private:
    std::optional<MpiRuntime> session_;  // first in, last out
    MpiComm* whole_ = nullptr;           // that this is a part of
    OwnedComm group_;
    int rank_;
    int size_;
    int world_rank_;
    std::string host_ = host_name();
    Alarm alarm_;
};

}  // namespace

const MpiEntry& own_entry() {
    static const MpiEntry entry{kLibrary, own_name, [](Pulse& starting) {
                                    return std::unique_ptr<Comm>(new MpiComm(starting));
                                }};
    return entry;
}

}  // namespace shardweld::mpi
