// Messages for people, with levels, or for programs, as JSON; and whether people look at them, and
// how wide their window is.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "core/path.hpp"
#include "shardweld/error.hpp"
#include "shardweld/events.hpp"

namespace shardweld::app {

/// The terminal at the end of standard error, through a launcher's pipe or directly.
class Terminal {
  public:
    /// Takes `fd`, and closes it if it is not standard error.
    explicit Terminal(int fd);
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    /// Columns as of now; 80 where the terminal does not tell.
    [[nodiscard]] std::size_t width() const;

  private:
    int fd_;
};

/// Standard error itself, or what mpirun, mpiexec or prterun above this process has as its own:
/// they pass on what ranks say. nullptr where there is none, as in files, in Slurm's logs and where
/// the launcher runs on another host.
std::shared_ptr<const Terminal> find_terminal();

/// How many characters a line of this terminal has; 0 where it is none.
std::size_t width_of(int fd);

/// The launcher among the processes above this one, on this host; 0: none is seen.
int launcher_above();

/// Whether a process of this name passes on what the ranks below it say.
bool is_launcher(const std::string& name);

/// The error's own hint, else what is usual with its code; may be "".
std::string hint_of(const Error& error);

/// What --json prints in place of a result, in a line.
std::string failure_json(const Error& error);

/// Lines below "WHAT", indented by two, with a line end in front; "" where there is nothing to say.
std::string where_line(const Error& error);
std::string hint_line(const std::string& hint);

/// WHAT and the lines below it: "where:", "hint:", and "detail:" if asked for.
std::string text_of(const Error& error, bool has_detail = false);

/// One rank's own log file: all messages with their times, whatever standard error shows.
class RankLog {
  public:
    /// Opens rank-0003.log in `directory` (made where it is missing) for appending: runs follow
    /// each other. Error(target) when something else than a file has the name, links included;
    /// Error(io), Error(space).
    RankLog(const fs::path& directory, int rank);
    ~RankLog();
    RankLog(const RankLog&) = delete;
    RankLog& operator=(const RankLog&) = delete;

    /// Adds a line with the time (UTC) before it, in one write(2): nothing is left in a buffer when
    /// the process dies. What cannot be written is lost: a log ends no merge. Any thread.
    void write(std::string_view text);

  private:
    std::mutex mutex_;
    int fd_ = -1;
};

/// A line about one thing: "wrote: OUT in 2.0 s". On a terminal its parts look different.
struct Headline {
    std::string label;      ///< "wrote"
    std::string subject;    ///< "OUT"
    std::string rest;       ///< ", 7 files"; lines behind the first are indented by it
    bool is_typed = false;  ///< somebody will copy it: no line is broken but behind "&&"

    [[nodiscard]] std::string text() const { return label + ": " + subject + rest; }
};

/// Writes messages up to a level, warnings and errors with these words in front. On a terminal
/// lines that are longer than it is wide are broken between words. On ranks other than 0 it is made
/// mute, so that every message appears once. With a log of the rank's own all messages of all
/// levels go there too.
class Log {
  public:
    Log(std::ostream& out, LogLevel level, bool is_speaker)
        : out_(&out), level_(level), is_speaker_(is_speaker) {}
    /// Tells a program that called the library all messages, whatever their level.
    Log(Events& listener, bool is_speaker)
        : listener_(&listener), level_(LogLevel::debug), is_speaker_(is_speaker) {}

    /// What, where and what to do, a line each; the detail too where debug messages are shown.
    void error(const Error& error);
    void warning(std::string_view text);
    void info(std::string_view text);
    void info(const Headline& line);
    void debug(std::string_view text);
    /// A line of a trace: who asks for one wants it, whatever the level.
    void trace(std::string_view text);
    /// For the rank's own log alone: what this rank does, in detail. Any thread.
    void write_own(std::string_view text);

    /// The live line, drawn over the one before; it goes when a message comes. "": none.
    void draw(const std::string& line);
    /// A line of JSON, where the reader is a program.
    void write_object(const std::string& json);

    void keep(std::shared_ptr<RankLog> own) { own_ = std::move(own); }
    [[nodiscard]] bool is_kept() const { return own_ != nullptr; }
    /// People read at this terminal; nullptr: in a file, or nobody. Colours are used where they are
    /// wanted (--color); not told: on a terminal without NO_COLOR, and with FORCE_COLOR.
    void attach(std::shared_ptr<const Terminal> terminal,
                std::optional<bool> wants_colours = std::nullopt);
    [[nodiscard]] bool has_colours() const { return has_colours_; }
    [[nodiscard]] const Terminal* terminal() const { return terminal_.get(); }
    /// A program reads: every message is an object in a line.
    void speak_json() { is_json_ = true; }
    /// A log that speaks whatever its rank.
    [[nodiscard]] Log on_every_rank() const;

    /// Whether messages of this level are written.
    [[nodiscard]] bool shows(LogLevel level) const { return is_speaker_ && level <= level_; }
    [[nodiscard]] bool is_speaker() const { return is_speaker_; }
    /// Who is told instead of a stream's reader; nullptr: nobody.
    [[nodiscard]] Events* listener() const { return listener_; }

  private:
    /// What stands before and in place of a text on a terminal.
    struct Style {
        std::string label;       ///< at the beginning of the text: "error: "
        std::string label_code;  ///< of a terminal (ECMA-48, SGR)
        std::size_t n_bold = 0;  ///< characters behind the label
        bool is_typed = false;
        std::string aside = {};  ///< dim lines behind the text, for people only
    };
    void write_line(LogLevel level, const std::string& text, const Style& style);
    [[nodiscard]] std::string shown(const std::string& text, const Style& style) const;
    void write(const std::string& text);

    std::ostream* out_ = nullptr;
    Events* listener_ = nullptr;
    LogLevel level_;
    bool is_speaker_;
    bool is_json_ = false;
    bool has_live_line_ = false;
    bool has_colours_ = false;
    std::shared_ptr<RankLog> own_;
    std::shared_ptr<const Terminal> terminal_;
};

}  // namespace shardweld::app
