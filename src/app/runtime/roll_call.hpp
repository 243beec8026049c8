// Which ranks still answer when nothing gets on any more: asked beside MPI, which may be what
// hangs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mpi/comm.hpp"

namespace shardweld::app {

/// What a rank says of itself.
struct RankState {
    double silence = 0;       ///< seconds since it finished something together with the others
    bool is_waiting = false;  ///< for other ranks
    const char* phase = "";   ///< what it is doing, a literal
};

/// How long the others are waited for when they are asked.
inline constexpr double kAskSeconds = 2;

/// A socket for datagrams, whose address all ranks have. Nothing is sent unless somebody asks.
/// Datagrams have one size and begin with a number that only this run's ranks know; others are
/// passed over. All members but among() are for one thread, take no lock and never block longer
/// than they say.
class RollCall {
  public:
    /// Collective. Null where there is one rank only.
    static std::unique_ptr<RollCall> among(mpi::Comm& comm);

    ~RollCall();
    RollCall(const RollCall&) = delete;
    RollCall& operator=(const RollCall&) = delete;

    /// To be polled: readable where somebody asks. -1: this rank has none, and cannot be asked.
    [[nodiscard]] int fd() const { return fd_; }
    /// Takes what has arrived, and answers questions. Whether there was one.
    bool answer(const RankState& own);
    /// Asks all others and takes what they answer, for kAskSeconds; less where all have answered,
    /// or `wake` becomes readable.
    void ask(const RankState& own, int wake);
    /// Who did not answer, and who answered that it waits for no other rank: "no answer (UDP) from
    /// rank 2 (h2), last heard of at 07:01:33 UTC, 7 s ago". "" if nobody was asked. `silence`: as
    /// of own.
    [[nodiscard]] std::string told(double silence) const;

  private:
    static constexpr std::size_t kMostAddresses = 4;
    /// Where a rank can be asked, in network order; 0: nowhere.
    struct RankAddress {
        std::array<std::uint32_t, kMostAddresses> addresses{};
        std::uint16_t port = 0;
    };
    struct Nonce {
        std::array<std::uint64_t, 2> numbers{};
        friend bool operator==(const Nonce&, const Nonce&) = default;
    };
    struct Datagram;
    struct OtherRank {
        RankAddress place;
        std::string host;
        bool has_answered = false;
        bool is_waiting = false;
        double silence = 0;
        std::array<char, 64> phase{};
    };

    explicit RollCall(int rank) : rank_(rank) {}
    [[nodiscard]] RankAddress open();
    void send(const OtherRank& to, const Datagram& datagram) const;
    /// One that has arrived; whether it was a question. Sets `has_more` when there was one at all.
    bool take_datagram(const RankState& own, bool& has_more);
    [[nodiscard]] bool all_answered() const;

    int rank_;
    int fd_ = -1;
    Nonce nonce_;
    std::vector<OtherRank> ranks_;  ///< by number, this one too
    bool has_asked_ = false;
    bool is_waiting_ = false;  ///< this rank, when it asked
};

}  // namespace shardweld::app
