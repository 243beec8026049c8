// How far a run is: the phase, its share, bytes, rate and the time left, as people or programs like
// to read it.
#pragma once

#include <functional>
#include <string>

#include "core/index.hpp"

#include "log.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// Seconds from an arbitrary start.
using Clock = std::function<double()>;
Clock steady_clock();

enum class ProgressStyle {
    automatic,  ///< a bar on a terminal, else lines; nothing with --quiet
    bar,        ///< one line, drawn again and again
    lines,      ///< a line every ten seconds or ten percent, whichever is rarer
    json,       ///< an object a line, as all messages then
    told,       ///< to a program that called the library
    none,
};

/// What a phase's progress is measured against. Ranks advance alike, so this rank's part of its own
/// share stands for the whole.
struct Workload {
    Index total = 0;         ///< of all ranks; 0: not known
    Index share = 0;         ///< of these, this rank's
    const char* noun = "B";  ///< "B": bytes; else what is counted, in the plural
};

/// How far a phase is.
struct ProgressState {
    std::string phase;
    Workload work;
    Index done = 0;  ///< of the total
    double elapsed = 0;
    Index earlier = 0;  ///< of what is done, by an earlier run: it says nothing of the rate

    [[nodiscard]] int percent() const;
    [[nodiscard]] double rate() const;  ///< a second
};

/// "moving tensors: 42 %, 1.30 GB of 3.10 GB, 850 MB/s, 2m10s left", as far as it is known.
std::string progress_line(const ProgressState& state);
/// The line around a bar, not longer than `width` columns; `is_coloured` adds none.
std::string progress_bar(const ProgressState& state, std::size_t width, bool is_coloured);

class Progress {
  public:
    Progress(Log& log, ProgressStyle style, Clock clock);
    ~Progress() { end(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Ends the phase before. `done` of this rank's share is there already.
    void begin(const std::string& phase, const Workload& work = {}, Index done = 0);
    /// `done` of this rank's share is finished.
    void update(Index done);
    /// Something happens still.
    void tick() { update(own_); }
    /// The phase is over for all ranks.
    void end();

  private:
    void show();
    [[nodiscard]] Index of_total(Index own) const;

    Log* log_;
    ProgressStyle style_;
    Clock clock_;
    ProgressState state_;
    Index own_ = 0;
    double start_ = 0;
    double shown_ = 0;  ///< when something was last said
    int shown_percent_ = 0;
};

/// `why_stop`, which long work asks again and again, and a look at the progress each time.
std::function<std::string()> ticking(Progress& progress, std::function<std::string()> why_stop);

/// Shows work that tells how far it is (mpi::OnShare): the phase begins when it is first told.
std::function<void(Index done, Index own, Index total)> shown(Progress& progress, std::string phase,
                                                              const char* noun = "B");

/// The style that is meant by `asked` where the log speaks, and where its reader sits.
ProgressStyle style_for(ProgressStyle asked, const Log& log, bool is_quiet);

/// Shows a phase that is told how many bytes of this rank's part are finished.
std::function<void(Bytes done)> moving_shown(std::string phase, const plan::Plan& plan, int rank,
                                             Progress& progress, Log& log);

}  // namespace shardweld::app
