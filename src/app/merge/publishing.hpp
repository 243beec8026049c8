// The last two steps of the main path, execute and publish: partial directories, journals, tensors,
// the files beside them, checks, and one rename for each output.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/report/roof.hpp"
#include "execute/run.hpp"
#include "mpi/free_run.hpp"
#include "publish/run_facts.hpp"
#include "publish/target.hpp"

#include "planned.hpp"

namespace shardweld::app {

/// What has been written of an output.
struct WrittenOutput {
    execute::CreatedFiles created;
    execute::Written written;
    std::vector<io::WrittenFile> beside;  ///< the home rank's: all that is not a tensor
};

/// An output on its way, and what there is to go on with, should the run fail.
struct Draft {
    const Planned& planned;
    Output& output;
    std::optional<publish::PartialDirectory> partial = {};  ///< the first rank's
    std::optional<publish::RunFacts> begun = {};            ///< blocks are written down
    std::optional<io::Directory> directory = {};            ///< the partial one
    execute::Resumption resumption = {};
    std::size_t n_known = 0;  ///< what the journal told, as Resumption::n_known
    WrittenOutput made = {};
    io::Identities files = {};  ///< of the model, when they are complete
};

/// Collective. Takes up or makes the partial directories, with files of full size and a journal:
/// everything up to the last rename happens there, and their owner removes them when anything
/// fails, unless there is something to go on with.
void begin_drafts(std::vector<Draft>& drafts);

/// Collective. Writes the tensors of all outputs and looks at what is written. Error(strict).
void write_tensors(Planned& planned, std::vector<Draft>& drafts, const mpi::WhyStop& why_stop);

/// Collective. Writes all that lies beside the tensors, and holds everything that was written
/// against what should have been.
void complete_drafts(std::vector<Draft>& drafts, const mpi::WhyStop& why_stop);

/// Collective. Writes the reports that are kept with the models, and renames, the first output
/// last.
void publish_drafts(std::vector<Draft>& drafts);

/// Local. After a failure: keeps what another run can go on with, and lets `error` say so. A
/// refusal to resume touches nothing. The first rank speaks for all.
void keep_for_later(const std::vector<Draft>& drafts, Error& error);

/// Says what was made, in place of a line for each part.
void say_summaries(const Planned& planned);

/// Reports how near to the roof the merge came; where one is known, on the first rank.
void report_speed(const Output& output, const std::optional<MeasuredRoof>& roof);

}  // namespace shardweld::app
