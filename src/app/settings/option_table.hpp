// All options, a row each. Whatever is to be known of an option stands in its row: parsing, help,
// manual, completion, job scripts, and what ranks and resumed merges must have alike are made of
// the rows.
#pragma once

#include <string_view>
#include <vector>

#include "command_table.hpp"
#include "option_value.hpp"

namespace shardweld::app {

/// What an option changes.
enum class Touches {
    output,    ///< which bytes are written, or where they lie: a merge resumes only with the same
    form,      ///< the same of one output, which each may have its own of
    input,     ///< where something is read: a merge that resumes compares what lies there
    run,       ///< how the work is done and reported
    loudness,  ///< how much is said, and nothing else: ranks may differ in it
};

/// The steps of a job that are given an option of its merge, if their command takes it.
enum class JobSteps {
    all,    ///< the merge, and the test of what it wrote (test --of_merge)
    merge,  ///< the merge alone
    none,   ///< the script decides itself
};

/// Among an option's commands: it is about a finished model, and not for training checkpoints
/// (--to).
inline constexpr unsigned kFinished = 1U << 31U;

struct OptionRow {
    std::string_view name;   ///< with '_'
    std::string_view value;  ///< "DIR"; "" for a flag; "[A|B]": one of these, A if not given
    unsigned commands = 0;   ///< that take it, see bit_of; and kFinished
    std::string_view group;  ///< heading in the help; "" for options that are not listed
    std::string_view help;
    Setter set;  ///< put in the order of rows
    Touches touches = Touches::run;
    JobSteps steps = JobSteps::all;
    char letter = 0;  ///< short form, 0 if none

    bool is_repeated = false;  ///< may be given several times: values are joined with kNextValue

    [[nodiscard]] bool is_flag() const { return value.empty(); }
    [[nodiscard]] bool names_directory() const { return value.starts_with("DIR"); }
    [[nodiscard]] bool takes_none() const { return value == "FILE|none"; }
    [[nodiscard]] bool names_file() const {
        return value == "FILE" || value == "PATH" || takes_none();
    }
    [[nodiscard]] bool may_lack_value() const { return value.starts_with('['); }
    /// Paths may differ between ranks (disks of nodes), and are absolute in a job script.
    [[nodiscard]] bool names_path() const { return names_directory() || names_file(); }
    /// Whether this value of the option is a path.
    [[nodiscard]] bool is_path(std::string_view given) const {
        return names_path() && !(takes_none() && given == "none");
    }
    [[nodiscard]] bool is_taken_by(Command command) const {
        return (commands & bit_of(command)) != 0;
    }
    [[nodiscard]] bool is_of_finished() const { return (commands & kFinished) != 0; }
    /// Whether the help of the command has it, unless it is hidden.
    [[nodiscard]] bool is_in_help_of(const CommandRow& command) const {
        return is_taken_by(command.command) && !(command.needs_form && is_of_finished());
    }
    /// Whether a step of a job takes it, if the job's merge is given it.
    [[nodiscard]] bool is_given_to(Command step) const {
        const bool is_merge = step == Command::merge;
        return is_taken_by(step) &&
               (steps == JobSteps::all || (steps == JobSteps::merge && is_merge));
    }
};

const std::vector<OptionRow>& option_rows();

/// Those that tell of the command's options; not all of them need be taken by it.
const std::vector<OptionRow>& rows_for(const CommandRow& command);

/// nullptr when there is none of this name.
const OptionRow* find_option(std::string_view name);
const OptionRow* find_option(std::string_view name, const CommandRow& command);

/// Those that the help of a command lists, in its order.
std::vector<const OptionRow*> listed_options(const CommandRow& command);

/// The help of an option for one command: of "A; verify, check: B; clean: C" it is B for verify and
/// check, C for clean and A for all others.
std::string_view help_for(const OptionRow& row, const CommandRow& command);

/// The ten or fewer options that a command's short help lists.
std::vector<const OptionRow*> usual_options(const CommandRow& command);

/// Options known from verl's mergers, or planned, that this version does not have.
bool is_later_option(std::string_view name);

}  // namespace shardweld::app
