#include "terminal.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardweld::app {

namespace {

constexpr std::size_t kUsualWidth = 80;
// A launcher, its helper on this host, and a few shells of the user's between.
constexpr int kMostAbove = 8;

struct ProcessAbove {
    std::string name;
    int parent = 0;
};

/// "PID (NAME) STATE PARENT ...", of which NAME may hold anything (proc(5)).
ProcessAbove process_of(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::size_t begin = text.find('(');
    const std::size_t end = text.rfind(')');
    if (begin == std::string::npos || end == std::string::npos || text.size() < end + 5) {
        return {};
    }
    return {text.substr(begin + 1, end - begin - 1), std::atoi(text.c_str() + end + 4)};
}

bool is_pipe(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

std::shared_ptr<const Terminal> terminal_of(int pid) {
    const std::string path = "/proc/" + std::to_string(pid) + "/fd/2";
    // Only a look: a pipe would wait for a reader, and nothing is to be made.
    const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return nullptr;
    }
    if (::isatty(fd) == 0) {
        (void)::close(fd);
        return nullptr;
    }
    return std::make_shared<const Terminal>(fd);
}

bool is_set(const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
    return value != nullptr && *value != '\0';
}

bool is_dumb() {
    const char* const kind = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): no threads yet
    return kind != nullptr && std::string_view(kind) == "dumb";
}

}  // namespace

Terminal::Terminal(int fd) : fd_(fd), has_colours_(!is_set("NO_COLOR")) {}

Terminal::~Terminal() {
    if (fd_ != STDERR_FILENO) {
        (void)::close(fd_);
    }
}

std::size_t Terminal::width() const {
    winsize size{};
    return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

bool is_launcher(const std::string& name) {
    constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun",  "mpiexec", "orterun",
                                                            "prterun", "prte",    "mpiexec.hydra"};
    return std::find(kLaunchers.begin(), kLaunchers.end(), name) != kLaunchers.end();
}

int launcher_above() {
    int pid = ::getppid();
    for (int above = 0; above < kMostAbove && pid > 1; ++above) {
        const ProcessAbove process = process_of(pid);
        if (is_launcher(process.name)) {
            return pid;
        }
        pid = process.parent;
    }
    return 0;
}

std::shared_ptr<const Terminal> find_terminal() {
    if (is_dumb()) {
        return nullptr;
    }
    if (::isatty(STDERR_FILENO) != 0) {
        return std::make_shared<const Terminal>(STDERR_FILENO);
    }
    const int launcher = is_pipe(STDERR_FILENO) ? launcher_above() : 0;
    return launcher == 0 ? nullptr : terminal_of(launcher);
}

}  // namespace shardweld::app
