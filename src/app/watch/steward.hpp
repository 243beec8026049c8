// What the first rank of a watch does between merges: it looks at the run, says what comes next,
// and keeps the books.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "app/delta/write_delta.hpp"
#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "publish/lock_file.hpp"
#include "shardweld/error.hpp"

#include "chain.hpp"
#include "diary.hpp"
#include "lookout.hpp"
#include "wake.hpp"

namespace shardweld::app::watching {

/// What all ranks do next.
struct Order {
    bool is_end = true;  ///< nothing more
    std::string name;    ///< of the step's directory, and of its output
    fs::path source;     ///< relative to the run's directory
    std::string role;    ///< to take where the step has several; "" as the options say
    Index number = 0;
    bool uploads_complete = false;  ///< it is uploaded even if nothing is left to merge
    bool replaces = false;          ///< an output that was made of the step's earlier files
    DeltaOrder delta = {};

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.is_end, self.name, self.source, self.role, self.number,
                        self.uploads_complete, self.replaces, self.delta);
    };
};

/// How a merge ended.
struct Merged {
    std::optional<Error> failure;
    bool was_complete = false;  ///< its output was there already
    Bytes bytes = 0;            ///< of tensors
    double seconds = 0;
    std::optional<WrittenDelta> delta = {};
    std::optional<Error> delta_failure = {};  ///< the model is there nevertheless
};

class Steward {
  public:
    /// Takes the lock and opens the diary. Error(usage) for a run that is one of the outputs or a
    /// step itself, and for a command that is not there; Error(locked), Error(io).
    Steward(const Options& options, Log& log);

    /// Waits until a step is complete or the watch is to end. `is_over` ends it at once, with an
    /// order that counts for nothing.
    Order next(const std::function<bool()>& is_over);
    /// What follows the merge of the last order: books, the command, outputs that are too many.
    /// Error(stopped) where the command was told to stop.
    void finish(const Merged& merged);
    /// The watch is over, for this reason.
    void end(const std::string& why, ErrorCode code);
    /// What went wrong and was not made good, for people; "" if nothing.
    [[nodiscard]] std::string faults() const;

  private:
    [[nodiscard]] bool may_end(const Look& look, bool is_asked) const;
    bool sees_run(Look& look);
    void keep_books(const Look& look);
    [[nodiscard]] bool may_replace(const std::string& name) const;
    void count_made(const Merged& merged);
    bool take_delta(const Merged& merged);
    void take_delta_failure(const Error& failure);
    void note_link(const Link& link, Bytes bytes);
    void take_failure(const Error& failure);
    bool forgets_unfit(const Error& failure);
    void remove_unfinished(const std::string& name);
    void leave_lost(const Error& failure);
    void follow(const std::string& name);
    void follow_earlier();
    void remove_older();
    void remove_one(const std::string& name);
    [[nodiscard]] std::vector<fs::path> outputs_named(const std::string& name) const;

    const Options& options_;
    const WatchRequest& request_;
    Log& log_;
    std::vector<fs::path> outputs_;  ///< directories of outputs, the first one first
    fs::path run_;
    publish::TargetLock lock_;
    Diary diary_;
    Chain chain_;
    Lookout lookout_;
    Wake wake_;
    Counts counts_;
    std::set<std::string> unsent_;               ///< steps that are still to be uploaded
    std::set<std::string> unfollowed_;           ///< behind which the command is still to be run
    std::optional<ReadyStep> step_;              ///< of the last order
    std::map<std::string, std::string> unmade_;  ///< steps that failed, and why
    std::map<std::string, std::string> undelivered_;  ///< steps whose deltas failed, and why
    std::map<std::string, std::string> unended_;      ///< steps behind which the command failed
    std::string unseen_;  ///< why the run could not be looked at the last time
    double next_look_ = 0;
};

}  // namespace shardweld::app::watching
