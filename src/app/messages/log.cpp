#include "log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/redact.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"

#include "hidden.hpp"
#include "table.hpp"

namespace shardweld::app {

namespace {

std::string line(const char* label, const std::string& text) {
    return text.empty() ? "" : "\n  " + std::string(label) + text;
}

using nlohmann::ordered_json;

// Over the line as it is, whatever its length (ECMA-48: erase to its end).
constexpr const char* kEraseLine = "\r\x1b[K";

/// Whatever a message quotes, no terminal is to obey it.
std::string without_unseen(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const auto [bytes, point] = take_character(text);
        const bool is_shown = point == U'\n' || point == U'\t' || !is_unseen(point);
        out += is_shown ? bytes : "?";
    }
    return out;
}

constexpr const char* kBold = "\x1b[1m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

/// A line, broken between words; what is typed only where a shell reads on.
std::string broken(std::string_view line, std::size_t width, bool is_typed) {
    const std::size_t in_front = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t indent = in_front + 2;
    if (columns_of(line) <= width || width <= 2 * indent) {
        return std::string(line);
    }
    if (is_typed) {
        const std::size_t end = line.find("&& ");
        return end == std::string_view::npos
                   ? std::string(line)
                   : std::string(line.substr(0, end + 2)) + "\n" + std::string(indent + 4, ' ') +
                         std::string(line.substr(end + 3));
    }
    std::string text = wrapped(line.substr(in_front), indent, width);
    text.pop_back();
    return std::string(in_front, ' ') + text;
}

/// Where the `n`-th character that is no blank ends.
std::size_t end_of(const std::string& text, std::size_t n) {
    std::size_t at = 0;
    for (; at < text.size() && n > 0; ++at) {
        n -= text[at] != ' ' && text[at] != '\n' ? std::size_t{1} : 0;
    }
    return at;
}

std::size_t n_visible(std::string_view text) {
    return as_size(std::ranges::count_if(text, [](char c) { return c != ' ' && c != '\n'; }));
}

const char* level_name(LogLevel level) {
    constexpr std::array kNames{"error", "warning", "info", "debug"};
    static_assert(kNames.size() == as_size(LogLevel::debug) + 1);
    return kNames[as_size(level)];
}

std::string dumped(const ordered_json& json) {
    return hidden(json).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json fields_of(const Error& error) {
    return {{"code", static_cast<int>(error.code())},
            {"name", std::string(name_of(error.code()))},
            {"what", error.what()},
            {"where", error.context()},
            {"hint", hint_of(error)},
            {"detail", error.detail()}};
}

constexpr mode_t kMode = 0666;  // less the umask

std::string name_of(int rank) {
    return formatted("rank-%04d.log", rank);
}

/// "2026-02-28T23:59:59.123Z ".
std::string time_text() {
    using std::chrono::system_clock;
    const auto now = system_clock::now();
    const std::time_t seconds = system_clock::to_time_t(now);
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  now.time_since_epoch() % std::chrono::seconds(1))
                                  .count();
    std::tm parts{};
    (void)::gmtime_r(&seconds, &parts);
    std::array<char, 32> day{};
    (void)std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    return formatted("%s.%03dZ ", day.data(), static_cast<int>(milliseconds));
}

constexpr std::size_t kUsualWidth = 80;
// A launcher, its helper on this host, and a few shells of the user's between.
constexpr int kMostAbove = 8;

/// The name of a process and its parent: "PID (NAME) STATE PARENT ...", of which NAME may hold
/// anything (proc(5)).
std::pair<std::string, int> process_of(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::size_t begin = text.find('(');
    const std::size_t end = text.rfind(')');
    if (begin == std::string::npos || end == std::string::npos || text.size() < end + 5) {
        return {};
    }
    return {text.substr(begin + 1, end - begin - 1),
            static_cast<int>(std::strtol(text.c_str() + end + 4, nullptr, 10))};
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

std::string hint_of(const Error& error) {
    if (!error.hint().empty()) {
        return error.hint();
    }
    switch (error.code()) {
        case ErrorCode::corrupt:
            return "copy the file again from where it was saved";
        case ErrorCode::internal:
            return "this is a fault of shardweld: please report it";
        default:
            return "";
    }
}

std::string failure_json(const Error& error) {
    return dumped({{"schema", 1}, {"ok", false}, {"error", fields_of(error)}}) + "\n";
}

std::string where_line(const Error& error) {
    return line("where: ", joined(error.context(), "; "));
}

std::string hint_line(const std::string& hint) {
    return line("hint: ", hint);
}

std::string text_of(const Error& error, bool has_detail) {
    return error.what() + where_line(error) + hint_line(hint_of(error)) +
           (has_detail ? line("detail: ", error.detail()) : "");
}

/// Lines that fit, with the codes of a terminal; as it is where there is none.
std::string Log::shown(const std::string& text, const Style& style) const {
    const std::size_t width = terminal_ == nullptr ? text.size() : terminal_->width();
    std::string lines = joined(split(text, '\n'), "\n", [&](std::string_view line) {
        return broken(line, width, style.is_typed);
    });
    if (!has_colours_ || style.label_code.empty()) {
        return lines;
    }
    const std::size_t label = style.label.size();
    const std::size_t bold = end_of(lines, n_visible(style.label) + style.n_bold);
    return style.label_code + lines.substr(0, label) + kPlain +
           (style.n_bold == 0 ? "" : kBold + lines.substr(label, bold - label) + kPlain) +
           lines.substr(style.n_bold == 0 ? label : bold);
}

void Log::write_line(LogLevel level, const std::string& text, const Style& style) {
    const std::string safe = without_secrets(without_unseen(text));
    if (own_) {
        own_->write(safe);
    }
    if (!shows(level)) {
        return;
    }
    // Who reads the level has no need of its name in the text.
    const std::string told = level <= LogLevel::warning ? safe.substr(style.label.size()) : safe;
    if (listener_ != nullptr) {
        listener_->message(level, told);
    } else if (is_json_) {
        write_object(dumped({{"event", "message"}, {"level", level_name(level)}, {"text", told}}));
    } else {
        const bool is_dim = has_colours_ && !style.aside.empty();
        write(shown(safe, style) + (is_dim ? kDim + style.aside + kPlain : style.aside) + "\n");
    }
}

/// One write: launchers mix the lines of several processes.
void Log::write(const std::string& text) {
    *out_ << (has_live_line_ ? kEraseLine + text : text) << std::flush;
    has_live_line_ = false;
}

void Log::draw(const std::string& line) {
    if (out_ == nullptr) {
        return;
    }
    if (!line.empty() || has_live_line_) {
        *out_ << kEraseLine + line << std::flush;
    }
    has_live_line_ = !line.empty();
}

void Log::write_object(const std::string& json) {
    write(json + "\n");
}

void Log::error(const Error& error) {
    if (is_json_ && shows(LogLevel::error)) {
        write_own("error: " + error.full_text());
        ordered_json json = {{"event", "error"}};
        json.update(fields_of(error));
        write_object(dumped(json));
        return;
    }
    const std::string label = "error: ";
    // A wrong command line is told of its own help.
    const bool has_section = error.code() != ErrorCode::usage;
    const std::string code = std::to_string(static_cast<int>(error.code()));
    write_line(
        LogLevel::error, label + text_of(error, level_ == LogLevel::debug),
        {label, "\x1b[1;31m", 0, false, has_section ? "\n  see: shardweld help " + code : ""});
}
void Log::warning(std::string_view text) {
    const std::string label = "warning: ";
    write_line(LogLevel::warning, label + std::string(text), {label, "\x1b[33m", 0, false});
}
void Log::info(std::string_view text) {
    write_line(LogLevel::info, std::string(text), {});
}
void Log::info(const Headline& line) {
    write_line(LogLevel::info, line.text(),
               {line.label + ": ", kDim, n_visible(line.subject), line.is_typed});
}
void Log::debug(std::string_view text) {
    write_line(LogLevel::debug, std::string(text), {});
}

void Log::trace(std::string_view text) {
    if (listener_ != nullptr) {
        write_line(LogLevel::info, "trace: " + std::string(text), {});
    } else if (is_speaker_) {
        write(shown("trace: " + without_secrets(text), {}) + "\n");
    }
}

void Log::write_own(std::string_view text) {
    if (own_) {
        own_->write(without_secrets(text));
    }
}

Log Log::on_every_rank() const {
    Log log = *this;
    log.is_speaker_ = true;
    return log;
}

RankLog::RankLog(const fs::path& directory, int rank) {
    std::error_code failed;
    fs::create_directories(directory, failed);
    if (failed) {
        std::error_code unknown;
        if (fs::exists(directory, unknown)) {
            throw Error(ErrorCode::target,
                        "--log_dir " + directory.string() + " is not a directory",
                        "remove it or name another one");
        }
        io::throw_errno(failed.value(), "create directory", directory);
    }
    const fs::path path = directory / name_of(rank);
    fd_ = ::open(path.c_str(),
                 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                 kMode);
    struct stat status {};
    if (fd_ >= 0 ? ::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)
                 : errno == ELOOP || errno == ENXIO || errno == EISDIR) {
        (void)::close(fd_);
        throw Error(ErrorCode::target, path.string() + " is not a regular file",
                    "remove it or name another --log_dir");
    }
    if (fd_ < 0) {
        io::throw_errno(errno, "open", path);
    }
}

RankLog::~RankLog() {
    (void)::close(fd_);
}

void RankLog::write(std::string_view text) {
    const std::string line = time_text().append(text).append("\n");
    const std::lock_guard lock(mutex_);
    std::size_t done = 0;
    while (done < line.size()) {
        const ssize_t put = ::write(fd_, line.data() + done, line.size() - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return;
        }
        done += as_size(put);
    }
}

void Log::attach(std::shared_ptr<const Terminal> terminal, std::optional<bool> wants_colours) {
    terminal_ = std::move(terminal);
    has_colours_ = wants_colours.value_or(is_set("FORCE_COLOR") ||
                                          (terminal_ != nullptr && !is_set("NO_COLOR")));
}

Terminal::Terminal(int fd) : fd_(fd) {}

Terminal::~Terminal() {
    if (fd_ != STDERR_FILENO) {
        (void)::close(fd_);
    }
}

std::size_t width_of(int fd) {
    winsize size{};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t Terminal::width() const {
    const std::size_t width = width_of(fd_);
    return width > 0 ? width : kUsualWidth;
}

bool is_launcher(const std::string& name) {
    constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun",  "mpiexec", "orterun",
                                                            "prterun", "prte",    "mpiexec.hydra"};
    return contains(kLaunchers, name);
}

int launcher_above() {
    int pid = ::getppid();
    for (int above = 0; above < kMostAbove && pid > 1; ++above) {
        const auto [name, parent] = process_of(pid);
        if (is_launcher(name)) {
            return pid;
        }
        pid = parent;
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
