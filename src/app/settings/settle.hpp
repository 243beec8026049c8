// Options that were given by name, on a command line or by a program, as values that fit together.
#pragma once

#include "command_table.hpp"

namespace shardweld::app {

/// Puts what `given` says into the members, in the order of the rows. Error(usage),
/// Error(unsupported) where a text is no value of its option.
void put_values(const GivenTexts& given, const std::vector<OptionRow>& rows, Job& job);

/// One more checkpoint that is joined with the first.
void add_checkpoint(const fs::path& directory, Job& job);

/// Error(usage) where an option excludes another one that is given, or needs one that is not.
void check_relations(const GivenTexts& given);

/// Options whose values are put already, with what follows from several of them, and what all ranks
/// and a later run must be given alike (Job::shared, output_options). Error(usage) where they
/// do not fit together, and where no directory is given.
Job settled(Job job, const CommandRow& command);

/// The options that lead to one of the job's outputs, sorted; its own form is in one spelling.
std::vector<std::string> output_options(const Job& job, const JobOutput& output);

}  // namespace shardweld::app
