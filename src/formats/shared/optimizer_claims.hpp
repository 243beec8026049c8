// Steps and parameter groups of an optimizer are claims: each place that states them is held
// against the others, numbers name one parameter each, and moments are nothing without them. All
// readers hold them here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/claims.hpp"
#include "formats/catalogue_words.hpp"

#include "scalar_value.hpp"

namespace shardweld::formats {

/// The whole number from 0 to 2^53 that a JSON text is; nullopt for everything else.
std::optional<double> whole_number(const std::string& json);

/// A fact of a catalogue: how many steps the engine that saved it says to have made.
inline constexpr const char* kStepsDone = "steps_done";
/// Facts that begin with it: the step that names, trackers and trainers' own files state.
inline constexpr const char* kStepBesides = "the step in ";

/// Error(not_found), saying where, unless there is a step.
void require_step(const std::string& place, bool has_one);

/// Steps that are stated in several places: the same whole number in all.
class StepClaims {
  public:
    /// A step as JSON text. Error(corrupt) where it is no whole number from 0 on, Error(mismatch)
    /// naming both places where another says something else.
    void add(const std::string& json, const std::string& place);
    /// Whether there is one: it may be absent (null) or None.
    bool add(const PickleValue* value, const ScalarReader& scalars, const std::string& place);
    /// "step" of each group that has one, which is not None; whether there is one.
    bool add(const std::vector<ParameterGroup>& groups, const std::string& place);

    [[nodiscard]] std::optional<double> step() const { return step_; }

  private:
    std::optional<double> step_;
    catalogue::Claims<std::string> steps_;
};

/// Groups and other settings that are stated in several places: the same values in all.
class GroupClaims {
  public:
    /// `optimizer`: which of a save's they are of; nothing where there are none. Error(mismatch)
    /// where another place says something else of that one, naming both.
    void add(const std::string& optimizer, std::vector<ParameterGroup> groups,
             const std::string& place);

    /// Adds them.
    void finish(Optimizer& out);

  private:
    struct Stated {
        std::vector<ParameterGroup> groups;
        std::string place;
    };
    std::map<std::string, Stated> stated_;
};

/// "lr is 0.1 in A but 0.2 in B", of the first setting that is not in both or not the same value;
/// "": there is none.
std::string difference(const Settings& a, const std::string& place_a, const Settings& b,
                       const std::string& place_b);
/// Whether two JSON texts are one value: 1 and 1.0 are.
bool is_same_value(const std::string& a, const std::string& b);

/// Members of groups, group by group: numbers as texts, or names.
using Members = std::vector<std::vector<std::string>>;

/// Those of torch's `param_groups`. Error(corrupt) for one that is there twice, and for numbers
/// that do not ascend in a group or leave one out.
Members members_in(const PickleValue& groups);
/// Error(corrupt) naming a key of torch's `state` that is none of the members.
void require_members(const PickleValue& state, const Members& members);
/// A key of torch's `state`, or a member of a group.
std::string member_text(const PickleValue& key);

/// What states are nothing without. Moments need a step, and each parameter a group that states a
/// rate, betas, epsilon and decay: Error(not_found) where they are not told. Error(corrupt) for
/// settings that are no such numbers, for a parameter in two groups, and for one in none where they
/// have names.
void require_claims(const Optimizer& optimizer);

}  // namespace shardweld::formats
