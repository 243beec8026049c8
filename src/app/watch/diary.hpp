// What a watch did, kept for people, programs and the next watch: a line of JSON for each event in
// OUT/watch.jsonl, and counts for Prometheus.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "app/messages/log.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "io/appended_file.hpp"

namespace shardweld::app::watching {

/// The diary's file in the directory of the outputs.
inline constexpr const char* kDiary = "watch.jsonl";

/// A step whose model the versions in a directory of deltas lead to.
struct Link {
    std::string step;
    Index number = 0;
    Index version = 0;  ///< 0: the versions begin with it
};

/// The deltas in a directory, as far as watches made them.
struct Links {
    std::optional<Link> last;    ///< the next delta leads from its model
    std::set<std::string> done;  ///< steps that have theirs, or that they begin with
};

/// What earlier watches wrote.
struct Earlier {
    std::map<std::string, std::string> removed;  ///< steps by name: the print of their files
    std::set<std::string> unsent;                ///< steps that were begun, and not uploaded
    std::set<std::string> unfollowed;    ///< steps that were begun, and the command not run behind
    std::map<std::string, Links> links;  ///< by directory of deltas
};

/// Lines of a diary; what is no event is passed over. Pure.
Earlier earlier_in(const std::string& text);

/// Events, appended. What cannot be written is said once and ends nothing.
class Diary {
  public:
    /// Opens the diary in `out`, and reads what is there. `log` also gets the events where a
    /// program reads it. Error(io), also where it is no regular file; Error(space).
    Diary(const fs::path& out, Log& log, bool is_for_program);

    [[nodiscard]] const Earlier& earlier() const { return earlier_; }
    void write(const std::string& event, const nlohmann::ordered_json& fields);

  private:
    Log& log_;
    bool is_for_program_;
    io::AppendedFile file_;
    Earlier earlier_;
    bool is_failing_ = false;
};

/// What has been counted since the watch began.
struct Counts {
    Index made = 0;
    Index complete = 0;  ///< were there already
    Index failed = 0;
    Index lost = 0;
    Index removed = 0;
    Index then_failed = 0;
    Index deltas = 0;
    Index steps = 0;                 ///< in the run, of those asked for
    Index waiting = 0;               ///< of these, not settled
    Bytes bytes = 0;                 ///< of tensors written
    double seconds = 0;              ///< spent on merges
    std::optional<Index> last_step;  ///< the number of the last one made
    double last_made = 0;            ///< seconds since 1970
    double last_look = 0;
};

/// Prometheus' text format 0.0.4. Pure.
std::string metrics_text(const Counts& counts);

/// Puts the counts' text in place of the file's. Local. Error(io), Error(space).
void write_metrics(const Counts& counts, const fs::path& file);

}  // namespace shardweld::app::watching
