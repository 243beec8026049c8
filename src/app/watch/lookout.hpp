// Which step of a run is to be merged next: what each look at the run shows, remembered from one to
// the next. A step is complete when its signs are there and its files have been quiet; whether it
// can be planned the merge itself finds out, before it writes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/settings/options.hpp"
#include "core/path.hpp"

#include "run_steps.hpp"
#include "step_files.hpp"

namespace shardweld::app::watching {

/// A step that is complete as far as its files tell.
struct ReadyStep {
    StepPlace place;
    std::string print;  ///< of its files
    std::size_t n_files = 0;
    bool has_signs = true;  ///< else its files were quiet, and nothing more is known of its save
    bool was_made = false;  ///< this watch has merged it, and its files are others since
};

/// What a look has shown.
struct Look {
    std::optional<ReadyStep> next;  ///< the one with the lowest number
    std::size_t n_steps = 0;        ///< that are asked for
    std::size_t n_waiting = 0;      ///< of them, that are not settled
    bool is_awaited = false;        ///< one of them has its signs, and waits to be quiet
    double idle_s = 0;              ///< since something was new
    std::vector<fs::path> doubles;  ///< steps that have the name of another, each told once
    std::vector<std::string> news;  ///< for people: why steps wait, where that is another reason
};

class Lookout {
  public:
    /// `others`: directories in `run` that are outputs. Paths are resolved.
    Lookout(fs::path run, std::vector<fs::path> others, WatchRequest request)
        : run_(std::move(run)), others_(std::move(others)), request_(std::move(request)) {}

    /// A step that an earlier watch has made, and removed again: it is settled while its files have
    /// this print.
    void leave(const std::string& name, const std::string& print) { left_[name] = print; }

    /// `now`: by a clock that never goes back. Local. Error(io).
    Look look(double now);

    /// How a step ended that was next.
    enum class End {
        made,     ///< it is settled until its files change
        refused,  ///< the same
        failed,   ///< the same, but it is tried once more after a while
        again,    ///< it was not complete after all
    };
    /// Local.
    void settle(const ReadyStep& step, End end, double now);
    /// A step that is gone: one that comes under its name is new.
    void forget(const std::string& name) { known_.erase(name); }
    /// The print of a step's files when they were looked at last; "" where it is not known.
    [[nodiscard]] std::string print_of(const std::string& name) const;
    /// The directories that hold steps, as of the last look.
    [[nodiscard]] const std::set<fs::path>& directories() const { return directories_; }

  private:
    /// A file, or the step's directory itself, as it was.
    struct Mark {
        fs::path path;
        io::FileStamp stamp;
    };
    struct Known {
        std::string print;
        double quiet_since = 0;
        std::optional<End> end;  ///< not given: it waits
        double ended = 0;
        bool was_made = false;
        std::string why;          ///< it waits
        std::vector<Mark> marks;  ///< by which a settled step is known to be written again
    };
    static std::vector<Mark> marks_of(const fs::path& step, const StepFiles& files);
    /// Why a step is not complete, or "": it is, as far as its files tell.
    struct State {
        std::string why;
        bool is_awaited = false;  ///< nothing but quiet is missing
        bool has_signs = false;   ///< all that such steps have, if they have any
    };
    void examine(const StepPlace& place, double now, Look& look);
    [[nodiscard]] State state_of(const StepPlace& place, const StepFiles& files, const Known& known,
                                 double now);
    void examine_files(const StepPlace& place, Known& known, double now, Look& look);
    [[nodiscard]] bool is_over(const Known& known, double now) const;
    [[nodiscard]] double patience_s() const;
    [[nodiscard]] bool is_asked_for(const StepPlace& place) const;
    void forget_gone(const std::vector<StepPlace>& places, Look& look);

    fs::path run_;
    std::vector<fs::path> others_;
    WatchRequest request_;
    std::map<std::string, std::string> left_;
    std::map<std::string, Known> known_;
    std::map<fs::path, std::vector<Tracker>> trackers_;  ///< of this look, by directory
    std::set<fs::path> directories_;
    std::set<fs::path> doubles_;       ///< that were told
    std::optional<double> last_news_;  ///< given by the first look
};

}  // namespace shardweld::app::watching
