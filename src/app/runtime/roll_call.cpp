#include "roll_call.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <ifaddrs.h>
#include <map>
#include <net/if.h>
#include <netinet/in.h>
#include <utility>

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

namespace {

// Datagrams get lost: they are sent again.
constexpr double kAskAgain = 0.5;
// Messages that one look takes: whoever floods the port does not keep this rank from its own work.
constexpr int kMostTaken = 10'000;
constexpr std::size_t kMostRanksShown = 8;
constexpr std::size_t kMostHostsShown = 8;

/// Addresses of this machine that others may reach, in network order.
std::vector<std::uint32_t> own_addresses() {
    std::vector<std::uint32_t> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) {
        return found;
    }
    for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
        const bool is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
        if (is_up && at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET) {
            sockaddr_in address{};
            std::memcpy(&address, at->ifa_addr, sizeof address);
            found.push_back(address.sin_addr.s_addr);
        }
    }
    ::freeifaddrs(all);
    return found;
}

/// "07:01:33"
std::string clock_time(double seconds_ago) {
    const auto at = static_cast<std::time_t>(std::time(nullptr) - std::lround(seconds_ago));
    std::tm parts{};
    std::array<char, 16> text{};
    ::gmtime_r(&at, &parts);
    (void)std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
    return text.data();
}

std::string since(double seconds_ago) {
    return clock_time(seconds_ago) + " UTC, " + std::to_string(std::lround(seconds_ago)) + " s ago";
}

using RanksByHost = std::map<std::string, std::vector<std::size_t>, std::less<>>;

/// "ranks 2, 3 (h2) and rank 5 (h3)"
std::string ranks_text(const RanksByHost& ranks) {
    std::vector<std::string> hosts;
    for (const auto& [host, numbers] : ranks) {
        std::string text = numbers.size() == 1 ? "rank " : "ranks ";
        for (std::size_t i = 0; i < std::min(numbers.size(), kMostRanksShown); ++i) {
            text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
        }
        if (numbers.size() > kMostRanksShown) {
            text += " and " + std::to_string(numbers.size() - kMostRanksShown) + " more";
        }
        hosts.push_back(text + " (" + host + ")");
    }
    std::string text;
    const std::size_t n = std::min(hosts.size(), kMostHostsShown);
    for (std::size_t i = 0; i < n; ++i) {
        text += (i == 0 ? "" : i + 1 == hosts.size() ? " and " : ", ") + hosts[i];
    }
    return n < hosts.size() ? text + " and those of " + counted(hosts.size() - n, "more host")
                            : text;
}

}  // namespace

struct RollCall::Datagram {
    Nonce nonce;
    std::uint32_t is_answer = 0;
    std::uint32_t rank = 0;  ///< that sends it
    double silence = 0;
    std::uint32_t is_waiting = 0;
    std::uint32_t unused = 0;
    std::array<char, 64> phase{};

    [[nodiscard]] static Datagram of(const Nonce& nonce, bool is_answer, int rank,
                                     const RankState& own) {
        Datagram datagram{nonce, is_answer ? 1U : 0U, static_cast<std::uint32_t>(rank), own.silence,
                          own.is_waiting ? 1U : 0U};
        std::strncpy(datagram.phase.data(), own.phase, datagram.phase.size() - 1);
        return datagram;
    }
};

std::unique_ptr<RollCall> RollCall::among(mpi::Comm& comm) {
    if (comm.size() == 1) {
        return nullptr;
    }
    std::unique_ptr<RollCall> call(new RollCall(comm.rank()));
    call->nonce_ = mpi::share(comm, 0, [] {
        Nonce nonce;
        (void)::getrandom(nonce.numbers.data(), sizeof nonce.numbers, GRND_NONBLOCK);
        return nonce;
    });
    for (auto& [place, host] : mpi::gather(comm, std::pair(call->open(), comm.host()))) {
        call->ranks_.push_back({place, std::move(host)});
    }
    return call;
}

RollCall::RankAddress RollCall::open() {
    RankAddress place;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t length = sizeof any;
    fd_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    if (fd_ < 0 || ::bind(fd_, address, length) != 0 || ::getsockname(fd_, address, &length) != 0) {
        return place;  // asks nobody and answers nobody
    }
    const std::vector<std::uint32_t> addresses = own_addresses();
    std::copy_n(addresses.begin(), std::min(addresses.size(), kMostAddresses),
                place.addresses.begin());
    place.port = any.sin_port;
    return place;
}

RollCall::~RollCall() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

void RollCall::send(const OtherRank& to, const Datagram& datagram) const {
    const auto send_to = [&](std::uint32_t address) {
        sockaddr_in there{};
        there.sin_family = AF_INET;
        there.sin_port = to.place.port;
        there.sin_addr.s_addr = address;
        (void)::sendto(fd_, &datagram, sizeof datagram, MSG_NOSIGNAL,
                       reinterpret_cast<const sockaddr*>(&there), sizeof there);
    };
    for (const std::uint32_t address : to.place.addresses) {
        if (address != 0 && to.place.port != 0) {
            send_to(address);
        }
    }
    if (to.host == ranks_[as_size(rank_)].host && to.place.port != 0) {
        send_to(htonl(INADDR_LOOPBACK));
    }
}

bool RollCall::take_datagram(const RankState& own, bool& has_more) {
    Datagram datagram;
    // One byte more than there may be: a longer one shows.
    std::array<char, sizeof(Datagram) + 1> bytes{};
    sockaddr_in from{};
    socklen_t length = sizeof from;
    const ssize_t got =
        ::recvfrom(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
    // A port that nobody has any more is told of as an error of the next call.
    has_more = got >= 0 || errno == ECONNREFUSED || errno == EINTR;
    if (got != static_cast<ssize_t>(sizeof datagram)) {
        return false;
    }
    std::memcpy(&datagram, bytes.data(), sizeof datagram);
    if (!(datagram.nonce == nonce_) || datagram.rank >= ranks_.size() ||
        datagram.rank == static_cast<std::uint32_t>(rank_)) {
        return false;
    }
    if (datagram.is_answer == 0) {
        const Datagram reply = Datagram::of(nonce_, true, rank_, own);
        (void)::sendto(fd_, &reply, sizeof reply, MSG_NOSIGNAL,
                       reinterpret_cast<const sockaddr*>(&from), length);
        return true;
    }
    OtherRank& other = ranks_[datagram.rank];
    other.has_answered = true;
    other.is_waiting = datagram.is_waiting != 0;
    other.silence = std::isfinite(datagram.silence) ? std::clamp(datagram.silence, 0.0, 1e9) : 0;
    other.phase = datagram.phase;
    other.phase.back() = '\0';
    return false;
}

bool RollCall::answer(const RankState& own) {
    bool was_asked = false;
    bool has_more = fd_ >= 0;
    for (int n = 0; has_more && n < kMostTaken; ++n) {
        was_asked = take_datagram(own, has_more) || was_asked;
    }
    return was_asked;
}

bool RollCall::all_answered() const {
    std::size_t n = 1;
    for (const OtherRank& other : ranks_) {
        n += other.has_answered || other.place.port == 0 ? 1 : 0;
    }
    return n >= ranks_.size();
}

void RollCall::ask(const RankState& own, int wake) {
    if (fd_ < 0) {
        return;
    }
    has_asked_ = true;
    is_waiting_ = own.is_waiting;
    for (OtherRank& other : ranks_) {
        other.has_answered = false;
    }
    const Datagram question = Datagram::of(nonce_, false, rank_, own);
    const double end = wall_seconds() + kAskSeconds;
    double next = 0;
    for (double now = wall_seconds(); now < end && !all_answered(); now = wall_seconds()) {
        if (now >= next) {
            for (const std::size_t rank : indices(ranks_)) {
                if (!ranks_[rank].has_answered && rank != as_size(rank_)) {
                    send(ranks_[rank], question);
                }
            }
            next = now + kAskAgain;
        }
        std::array<pollfd, 2> waited = {pollfd{fd_, POLLIN, 0}, pollfd{wake, POLLIN, 0}};
        const double nap = std::max(0.0, std::min(next, end) - wall_seconds());
        (void)::poll(waited.data(), waited.size(), static_cast<int>(nap * 1000) + 1);
        if ((waited[1].revents & POLLIN) != 0) {
            return;
        }
        (void)answer(own);
    }
}

std::string RollCall::told(double silence) const {
    if (!has_asked_) {
        return "";
    }
    RanksByHost silent;
    RanksByHost busy;
    const OtherRank* first_busy = nullptr;
    for (const std::size_t rank : indices(ranks_)) {
        const OtherRank& other = ranks_[rank];
        if (rank == as_size(rank_) || other.place.port == 0) {
            continue;  // who has no socket is neither here nor there
        }
        if (!other.has_answered) {
            silent[other.host].push_back(rank);
        } else if (!other.is_waiting) {
            busy[other.host].push_back(rank);
            first_busy = first_busy == nullptr ? &other : first_busy;
        }
    }
    std::vector<std::string> parts;
    if (!silent.empty()) {
        parts.push_back("no answer (UDP) from " + ranks_text(silent) + ", last heard of at " +
                        since(silence));
    }
    if (first_busy != nullptr) {
        parts.push_back("an answer from " + ranks_text(busy) + ", still in files of its own (" +
                        printable(first_busy->phase.data()) + ") since " +
                        since(first_busy->silence));
    }
    if (parts.empty()) {
        parts.emplace_back(is_waiting_
                               ? "all others answer (UDP) and wait, too: it is the network of MPI"
                               : "all others answer (UDP) and wait");
    }
    return parts.size() == 1 ? parts.front() : parts.front() + "; " + parts.back();
}

}  // namespace shardweld::app
