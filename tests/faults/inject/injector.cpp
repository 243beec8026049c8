#include "injector.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include "change.hpp"

namespace shardweld::faults {

namespace {

// Calls made by this library are not to be judged.
thread_local bool is_inside = false;

struct Inside {
    Inside() { is_inside = true; }
    ~Inside() { is_inside = false; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    Inside(Inside&&) = delete;
    Inside& operator=(Inside&&) = delete;
};

std::string link_text(const std::string& link) {
    std::array<char, PATH_MAX> text{};
    const ssize_t n = ::readlink(link.c_str(), text.data(), text.size());
    return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : std::string();
}

int rank_by_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
        if (const char* rank = std::getenv(name)) {
            return std::atoi(rank);
        }
    }
    return 0;
}

/// Shared with a file, so that counts outlive SIGKILL. Layout: [phase][side][call] seen, the same
/// of injected.
struct Counts {
    using Table =
        std::array<std::array<std::array<std::atomic<std::uint64_t>, kCalls.size()>, kSides.size()>,
                   kPhases.size()>;
    Table seen;
    Table injected;
};

class Injector {
  public:
    Injector() {
        const char* const directory = std::getenv("SHARDWELD_FAULT_COUNTS");
        const std::string program = link_text("/proc/self/exe");
        if (directory == nullptr || !program.ends_with("/shardweld")) {
            return;
        }
        rank_ = rank_by_launcher();
        const std::string prefix = std::string(directory) + "/";
        const std::string counts = prefix + "counts." + std::to_string(rank_);
        const int fd = ::open(counts.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        void* const shared =
            fd < 0 || ::ftruncate(fd, sizeof(Counts)) != 0
                ? MAP_FAILED
                : ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        log_ = ::open((prefix + "struck." + std::to_string(rank_)).c_str(),
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (shared == MAP_FAILED || log_ < 0) {
            std::perror("faults: cannot count");
            std::_Exit(99);
        }
        ::close(fd);
        counts_ = static_cast<Counts*>(shared);
        const char* const faults = std::getenv("SHARDWELD_FAULTS");
        faults_ = parse_faults(faults == nullptr ? "" : faults);
    }

    [[nodiscard]] bool is_armed() const { return counts_ != nullptr; }

    Verdict judge(Call call, std::string path, int flags) {
        const Side side = places_.side_of(path);
        if (side == Side::none && call != Call::allocate) {
            return {};
        }
        Phase before = phase_.load();
        const Phase now = phase_after(before, call, side, path, flags);
        while (before < now && !phase_.compare_exchange_weak(before, now)) {
        }
        const Site site{call, side, now, std::move(path)};
        ++at(counts_->seen, site);
        Verdict verdict;
        for (Fault& fault : faults_) {
            if (fault.strikes(site, rank_)) {
                ++at(counts_->injected, site);
                note(site);
                carry_out(fault.action, site, verdict);
            }
        }
        return verdict;
    }

  private:
    static std::atomic<std::uint64_t>& at(Counts::Table& table, const Site& site) {
        return table[static_cast<std::size_t>(site.phase)][static_cast<std::size_t>(site.side)]
                    [static_cast<std::size_t>(site.call)];
    }

    void note(const Site& site) const {
        const std::string line = std::string(kPhases[static_cast<std::size_t>(site.phase)]) + "\t" +
                                 std::string(kSides[static_cast<std::size_t>(site.side)]) + "\t" +
                                 std::string(kCalls[static_cast<std::size_t>(site.call)]) + "\t" +
                                 site.path + "\n";
        (void)!::write(log_, line.data(), line.size());
    }

    static void carry_out(const Action& action, const Site& site, Verdict& verdict) {
        switch (action.kind) {
            case Kind::error:
                verdict.error = action.number;
                return;
            case Kind::shorter:
                verdict.is_shorter = true;
                return;
            case Kind::slow: {
                const timespec wait{action.number / 1'000'000, action.number % 1'000'000 * 1000L};
                (void)::nanosleep(&wait, nullptr);
                return;
            }
            case Kind::signal:
                (void)::kill(::getpid(), action.number);
                return;
            default:
                change(action.kind, site.path);
        }
    }

    int rank_ = 0;
    int log_ = -1;
    Counts* counts_ = nullptr;
    Places places_;
    std::deque<Fault> faults_;
    std::atomic<Phase> phase_ = Phase::survey;
};

Injector& injector() {
    static Injector* const only = new Injector;  // calls come until the process is gone
    return *only;
}

std::string path_of(int fd) {
    return link_text("/proc/self/fd/" + std::to_string(fd));
}

template <typename F>
Verdict guarded(F ask) {
    if (is_inside) {
        return {};
    }
    const int before = errno;
    const Inside inside;
    const Verdict verdict = injector().is_armed() ? ask() : Verdict{};
    errno = verdict.error == 0 ? before : verdict.error;
    return verdict;
}

std::string absolute(int directory, const char* path) {
    if (path == nullptr || *path == '/') {
        return path == nullptr ? "" : path;
    }
    return (directory == AT_FDCWD ? link_text("/proc/self/cwd") : path_of(directory)) +
           (*path == '\0' ? "" : "/") + path;
}

}  // namespace

Verdict judge(Call call, const std::string& path, int flags) {
    return guarded([&] { return injector().judge(call, path, flags); });
}

Verdict judge(Call call, int fd) {
    return guarded([&] { return injector().judge(call, path_of(fd), 0); });
}

Verdict judge(Call call, int directory, const char* path, int flags) {
    return guarded([&] { return injector().judge(call, absolute(directory, path), flags); });
}

Verdict judge_allocation() {
    return guarded([&] { return injector().judge(Call::allocate, {}, 0); });
}

}  // namespace shardweld::faults
