// An output on its way: what has been written of it, and where.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "execute/run.hpp"
#include "io/directory.hpp"
#include "io/written.hpp"
#include "publish/run_facts.hpp"
#include "publish/target.hpp"

#include "planned.hpp"

namespace shardweld::app {

/// What has been written of an output.
struct OutputContent {
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
    OutputContent made = {};
    io::Identities files = {};  ///< of the model, when they are complete
};

}  // namespace shardweld::app
