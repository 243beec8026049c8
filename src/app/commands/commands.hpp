// The commands. Each knows the order of its steps; the steps are other modules'.
// All return the exit code, and throw the Error that ends the run.
#pragma once

#include <ostream>
#include <string>

#include "app/messages/log.hpp"
#include "app/settings/job.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

// Commands of one process.

/// Prints the list, or the text of the recipe or dialect named. Error(usage) for an unknown name.
int recipes(const Job& job, std::ostream& out);

/// Removes what merges below the input left and no run holds, and prints what it
/// found. Error(io) naming what could not be removed.
int clean(const Job& job, std::ostream& out);

/// Takes away the model that is mounted at the input, dead or alive. Error(not_found) where none
/// is, Error(locked) where it is in use, Error(io).
int unmount(const Job& job, Log& log);

// Collective; errors are the same on all ranks. The first rank prints to
// `out`, or to standard output.

/// Assembles what a merge would write, writes nothing, and compares it with job.run.reference.
/// Error(differs) when the models differ.
int test(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log);

/// Compares the model directory that is the input with job.run.reference. Error(differs) when the
/// models differ.
int diff(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log);

/// Re-reads the input, a model, against the format's rules and its index; with a report all tensors
/// too, against their checksums. Error(corrupt) or
/// Error(not_found) listing the rules broken; Error(differs) when tensors are not the report's.
int verify(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log);

/// The saves that have numbers in a run's directory and, where it has none itself, up to three
/// levels below it, and what trackers beside them say; as JSON or as a table. Error(not_found),
/// Error(io).
std::string steps_text(const fs::path& run, bool is_json);

/// Whether a file of this name is one whose header `inspect` shows.
bool has_header(const fs::path& file);

/// The tensors of a safetensors or GGUF file and what stands beside them, as JSON or as tables: of
/// a tensor that comes twice the last. Errors of formats::read_safetensors and read_gguf.
std::string header_text(const fs::path& path, bool is_json);

/// Finds and reads a checkpoint's metadata, and no tensor.
int inspect(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log);

/// Goes a merge's way up to the plan.
int print_plan(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log);

/// A command that writes no model, which all ranks run together: the command line's, and what
/// programs have examined.
using Examiner = int (*)(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log);

/// nullptr: the command is no such one.
constexpr Examiner examiner_of(Command command) {
    switch (command) {
        case Command::inspect:
            return inspect;
        case Command::plan:
            return print_plan;
        case Command::test:
            return test;
        case Command::diff:
            return diff;
        case Command::verify:
            return verify;
        default:
            return nullptr;
    }
}

}  // namespace shardweld::app
