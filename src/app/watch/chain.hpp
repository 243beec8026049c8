// The deltas of a watch: which steps have theirs, and from which model the next one leads. The
// first rank has it.
#pragma once

#include <string>
#include <tuple>

#include "app/settings/options.hpp"
#include "core/index.hpp"
#include "core/path.hpp"

#include "diary.hpp"
#include "run_steps.hpp"

namespace shardweld::app::watching {

/// What is done about the delta of a step once its model is there.
struct DeltaOrder {
    bool is_asked = false;
    std::string previous;       ///< the step from which it leads; "": the model of --delta_against
    bool is_for_new = false;    ///< none is made if the step's model was there already
    bool may_be_there = false;  ///< a watch that was killed may have made it

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.is_asked, self.previous, self.is_for_new, self.may_be_there);
    };
};

class Chain {
  public:
    /// `out`: the directory of the models. Errors of check_delta, where deltas are asked for.
    Chain(const Options& options, fs::path out, const Earlier& earlier);

    /// Local. Error(io).
    [[nodiscard]] DeltaOrder order_for(const StepPlace& step) const;
    /// Whether deltas are asked for, and no model is known that they begin with.
    [[nodiscard]] bool is_to_begin() const { return !directory_.empty() && !links_.last; }
    /// The deltas begin with this step's model: what the versions that are there lead to, if there
    /// are any. Local. Error(io).
    const Link& begin(const StepPlace& step);
    /// A version leads to this step's model.
    void add(const Link& link);

    /// Whether a step waits for its delta.
    [[nodiscard]] bool awaits(const std::string& step) const {
        return !directory_.empty() && !links_.done.contains(step);
    }
    /// Whether the next delta leads from the model of this step.
    [[nodiscard]] bool needs(const std::string& step) const;
    /// The directory of the versions; "" if no deltas are asked for.
    [[nodiscard]] const fs::path& directory() const { return directory_; }

  private:
    fs::path out_;
    fs::path against_;
    fs::path directory_;
    Links links_;
};

}  // namespace shardweld::app::watching
